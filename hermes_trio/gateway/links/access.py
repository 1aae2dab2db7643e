"""Who may talk to the agent, and who may do more than talk.

Nobody is let in by default. Who is, is decided in this order, first rule first:

| who speaks | |
|---|---|
| on a platform with a door of its own, which asks for a key: the API | let in |
| on a platform that the configuration does not name | refused |
| somebody of whom no id is known | refused, also where everybody is let in |
| anybody, and the platform has `allow_from: all` | let in |
| one of `allow_from` or `allow_admin_from` | let in |
| one whose pairing code the owner approved | let in, until that is revoked |
| anybody else | refused |

Access is asked for at every door and each time anew: at a message, before a cut turn is taken up again,
at an answer to an approval. Nothing is remembered, so what the owner decides counts from the next moment
on. Only for people whom no list names that is a look into the database.

The commands of `ADMIN_COMMANDS` concern everybody, and an approval is a yes to a command on this machine:

| who is named | may give admin commands | may answer approvals |
|---|---|---|
| admins, by `allow_admin_from` | they | they |
| no admins, but people: a list, or pairing | all of them | the person whose turn asks |
| nobody: `allow_from: all` | nobody | nobody |

A door of its own, which asks for a key, is the owner's: who has the key may do both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...base.messages import SessionSource
from ...base.world import World
from ...config.schema import GatewayConfig, PlatformConfig
from ...state.db.database import Database
from ...state.tables import pairing

ADMIN_COMMANDS = frozenset({"model", "restart", "sethome"})
"""What changes the gateway for everybody."""


def ids_of(source: SessionSource) -> tuple[str, ...]:
    """The ids of the person who speaks. A direct chat is the person in it; anywhere else the chat's id
    is nobody's."""
    ids = tuple(one for one in (source.user_id_alt, source.user_id) if one)
    if not ids and source.chat_type == "dm" and source.chat_id:
        return (source.chat_id,)
    return ids


def is_listed(platform: PlatformConfig, source: SessionSource) -> bool:
    """Whether the configuration itself lets this person in."""
    ids = ids_of(source)
    if platform.allow_from == "all":
        return bool(ids)
    return any(one in platform.allow_from or one in platform.allow_admin_from for one in ids)


def offers_pairing(platform: PlatformConfig, source: SessionSource) -> bool:
    """Whether this stranger may ask to be let in. In a group never: all would read the code. Left open,
    it depends on whether the owner has named anybody: who keeps a list keeps it."""
    if source.chat_type != "dm" or not ids_of(source):
        return False
    if platform.unauthorized_dm_behavior is None:
        return not platform.allow_from and not platform.allow_admin_from
    return platform.unauthorized_dm_behavior == "pair"


@dataclass(frozen=True, slots=True)
class Access:
    """The rules, with the configuration and the database that they look at."""

    config: GatewayConfig
    database: Database
    world: World
    own_doors: Collection[str] = ()
    """The platforms that are connected now and ask for a key at their own door."""

    async def may_talk(self, source: SessionSource) -> bool:
        """Whether this person may talk to the agent, now."""
        if source.platform in self.own_doors:
            return True
        platform = self.config.platforms.get(source.platform)
        if platform is None:
            return False
        if is_listed(platform, source):
            return True
        return await self.database.read(pairing.is_paired, source.platform, ids_of(source))

    async def is_admin(self, source: SessionSource) -> bool:
        """Whether this person may do what concerns everybody: the admin commands."""
        platform = self.config.platforms.get(source.platform)
        if platform is None or source.platform in self.own_doors:
            return await self.may_talk(source)
        if platform.allow_admin_from or platform.allow_from == "all":
            return any(one in platform.allow_admin_from for one in ids_of(source))
        return await self.may_talk(source)

    async def may_approve(self, source: SessionSource, asked_of: Collection[str]) -> bool:
        """Whether this person may answer an approval that a turn of the people with these ids asks for."""
        if not await self.is_admin(source):
            return False
        platform = self.config.platforms.get(source.platform)
        if platform is None or source.platform in self.own_doors or platform.allow_admin_from:
            return True
        return not asked_of or any(one in asked_of for one in ids_of(source))

    async def new_code(self, source: SessionSource) -> str | None:
        """The pairing code to show to this person, who was refused; None if there is nothing to say to
        them. It is returned when its hash is stored, and must not be stored or logged itself."""
        platform = self.config.platforms.get(source.platform)
        if platform is None or not offers_pairing(platform, source):
            return None
        code = pairing.new_code()
        person = pairing.Person(source.platform, ids_of(source)[0], source.user_name, self.world.time())
        asked = await self.database.write(pairing.ask, person, pairing.sealed(code))
        return code if asked else None
