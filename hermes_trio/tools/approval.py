"""A person's yes before a command runs that may do harm.

It counts once, for the session, or always. For a session or always it is given to a kind of harm, as
`verdict` names them, not to one command. An allowance for a session is kept in memory and ends with the
session. An allowance for always is stored in the database; `hermes-trio doctor` shows it and `/deny always`
takes it back. A blocked command cannot be allowed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import trio

from ..base.recent import Recent
from ..state.tables import meta
from ..state.tables.approvals import ALWAYS
from .needs import is_allowed, kinds_of, shown_grants
from .safety.judge import judge, places_here, places_there
from .safety.verdict import GATEWAY, LATER, UNREADABLE, UNSEEN, Blocked, NeedsYes, Verdict, one_command
from .sandbox.exposed_places import exposed_kinds, remedy_for, shown_places
from .sandbox.views import NOTHING, Grants
from .tool import Approval, ToolFailed, Workplace

MOST_REMEMBERED = 1000
"""Number of sessions whose allowances are remembered; the oldest is dropped."""
_NO_WAY_AROUND = "Do not try it again, and do not try to get the same done in another way."


class Permissions:
    """Decides which commands may run, and remembers what people allow."""

    def __init__(self) -> None:
        self._of_session = Recent[str, set[str]](MOST_REMEMBERED)

    async def permit(
        self, command: str, place: Workplace, *, cwd: Path, after: str = "", shown: Approval | None = None
    ) -> None:
        """Return if the command may run in `cwd`, in a shell that has run the text `after` before it. The
        person is `shown` the command, unless it is only the input of another one. Raises `ToolFailed` if
        not."""
        verdict = await _judged(command, place, cwd, after)
        if isinstance(verdict, NeedsYes):
            kinds = {kind: _stored_as(kind, command) for kind in verdict.kinds}
            await self.require(kinds, shown or Approval(command, place=str(cwd)), place)

    async def grant(self, command: str, needs: Grants, place: Workplace, *, cwd: Path) -> Grants:
        """Return what the command gets beyond its sandbox. Where there is no sandbox, it is judged instead.
        Raises `ToolFailed` if it may not run."""
        if not place.sandbox.confines:
            await self.permit(command, place, cwd=cwd)
        if not place.sandbox.confines or place.sandbox.remote is not None:
            return NOTHING
        network = place.config.terminal.network
        if network == "off" and (needs.network or needs.hosts):
            raise ToolFailed(f"The owner has turned the network off for commands. {_NO_WAY_AROUND}")
        asked, granted = needs, needs
        if network == "on":
            asked = msgspec.structs.replace(needs, network=False, hosts=())
            granted = msgspec.structs.replace(needs, network=True, hosts=())
        sandbox = place.sandbox
        exposed = await trio.to_thread.run_sync(sandbox.exposed, needs, abandon_on_cancel=True)
        kinds = {**kinds_of(asked, command), **exposed_kinds(exposed, sandbox.room)}
        if needs.everything and isinstance(verdict := await _judged(command, place, cwd), NeedsYes):
            kinds |= {kind: _stored_as(kind, command) for kind in verdict.kinds}
        if kinds:
            shown = (*shown_grants(granted), *shown_places(exposed))
            approval = Approval(command, place=str(cwd), grants=shown)
            await self.require(kinds, approval, place)
            await trio.to_thread.run_sync(_must_be_as_shown, cwd, granted, abandon_on_cancel=True)
        return granted

    async def require(self, kinds: Mapping[str, str], approval: Approval, place: Workplace) -> None:
        """Return if a person has allowed, or now allows, each of these kinds of harm. `kinds` maps a kind to
        the name under which an allowance is stored. The person is shown the approval and the kinds. Raises
        `ToolFailed` if not."""
        if place.config.approvals.mode == "off":
            return
        always = {name.removeprefix(ALWAYS) for name, _ in await place.database.read(meta.every, ALWAYS)}
        allowed = always | self._of_session.get(place.session_id, set())
        asked = {kind: name for kind, name in kinds.items() if not is_allowed(name, allowed)}
        if asked:
            await self._ask(approval, asked, place)

    async def _ask(self, approval: Approval, kinds: Mapping[str, str], place: Workplace) -> None:
        does = "; ".join(kinds)
        if any(
            place.masking.known(text) != text for text in (approval.exact, approval.place, *approval.grants)
        ):
            raise ToolFailed(
                f"BLOCKED: this {does}, and it holds a secret of the gateway, which no chat is shown. Nobody "
                "can allow what they have not seen. Let the command read the secret from where it is stored."
            )
        remedy = remedy_for(kinds.values())
        said = await place.may(msgspec.structs.replace(approval, description=f"This {does}.{remedy}"))
        if said == "session":
            self._allow(place.session_id, kinds.values())
        elif said == "always":
            at = str(place.world.time())
            for name in kinds.values():
                await place.database.write(meta.put, ALWAYS + name, at)
        elif said != "once":
            raise ToolFailed(
                f"BLOCKED: this {does}. That needs a person's yes, and none came: they said no, or "
                f"not in time, or nobody is there. {_NO_WAY_AROUND} Go on without it, or say what is missing."
                f"{remedy}"
            )

    def _allow(self, session_id: str, names: Iterable[str]) -> None:
        self._of_session[session_id] = self._of_session.get(session_id, set()) | set(names)


def _must_be_as_shown(cwd: Path, grants: Grants) -> None:
    """Raise `ToolFailed` if one of these paths leads elsewhere now than when a person was shown it."""
    for path in (cwd, *grants.writable):
        if os.path.realpath(path) != str(path):
            raise ToolFailed(f"{path} was replaced while the person was asked. Nothing was run.")


async def _judged(command: str, place: Workplace, cwd: Path, after: str = "") -> Verdict:
    """Return the verdict on a command. Raises `ToolFailed` if nobody can allow it."""
    remote = place.sandbox.remote is not None
    places = places_there(place.home, cwd) if remote else places_here(place.home, cwd, place.cwd)
    verdict = await trio.to_thread.run_sync(judge, command, places, after, abandon_on_cancel=True)
    if isinstance(verdict, Blocked):
        raise ToolFailed(f"BLOCKED: nobody can allow this: {verdict.why}. {_NO_WAY_AROUND}")
    return verdict


def _stored_as(kind: str, command: str) -> str:
    """Return the name under which an allowance is stored. If the effect of a command is unknown, or if it
    changes the gateway or sets up code that runs later, the allowance is for this one command: a yes to the
    kind would allow everything."""
    return one_command(kind, command) if kind in (UNSEEN, UNREADABLE, GATEWAY, LATER) else kind
