"""Access: the people who may talk to the agent, and those who may give admin commands and approvals.

Nobody has access by default. The first rule that applies decides:

| the sender | access |
|---|---|
| on a platform with a door of its own, which asks for a key: the API | yes |
| on a platform that the configuration does not name | no |
| without a known id | no, also with `allow_from: all` |
| anybody, on a platform with `allow_from: all` | yes |
| listed in `allow_from` or `allow_admin_from` | yes |
| with a pairing code that the owner approved | yes, until it is revoked |
| anybody else | no |

Access is checked each time: at a message, before a cut turn is resumed, at an answer to an approval. No
result is kept, so a decision of the owner applies at once. The database is read only for people whom no
list names.

The commands of `ADMIN_COMMANDS` affect everybody, and an approval permits a command on this machine:

| the configuration names | admin commands from | approvals from |
|---|---|---|
| admins, by `allow_admin_from` | the admins | the admins |
| no admins, but people: a list, or pairing | all of them | the person whose turn asks |
| nobody: `allow_from: all` | nobody | nobody |

A door of its own that asks for a key is the owner's: a person with the key may do both.

This module may read the configuration and the pairing table; it knows no chat and no turn.
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
"""Commands that change the gateway for everybody."""


def ids_of(source: SessionSource) -> tuple[str, ...]:
    """Return the ids of the sender. In a direct chat without a user id, the id of the chat is that of the
    person; in any other chat it belongs to nobody."""
    ids = tuple(one for one in (source.user_id_alt, source.user_id) if one)
    if not ids and source.chat_type == "dm" and source.chat_id:
        return (source.chat_id,)
    return ids


def is_listed(platform: PlatformConfig, source: SessionSource) -> bool:
    """Return True if the lists of the configuration give this person access."""
    ids = ids_of(source)
    if platform.allow_from == "all":
        return bool(ids)
    return any(one in platform.allow_from or one in platform.allow_admin_from for one in ids)


def offers_pairing(platform: PlatformConfig, source: SessionSource) -> bool:
    """Return True if a stranger may get a pairing code: never in a group, where everybody would read it. If
    the configuration does not say, only on a platform where the owner has listed nobody."""
    if source.chat_type != "dm" or not ids_of(source):
        return False
    if platform.unauthorized_dm_behavior is None:
        return not platform.allow_from and not platform.allow_admin_from
    return platform.unauthorized_dm_behavior == "pair"


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of access, with the configuration and the database that they read."""

    config: GatewayConfig
    database: Database
    world: World
    own_doors: Collection[str] = ()
    """Connected platforms with a door of their own that asks for a key."""

    async def may_talk(self, source: SessionSource) -> bool:
        """Return True if this person may talk to the agent now."""
        if source.platform in self.own_doors:
            return True
        platform = self.config.platforms.get(source.platform)
        if platform is None:
            return False
        if is_listed(platform, source):
            return True
        return await self.database.read(pairing.is_paired, source.platform, ids_of(source))

    async def is_admin(self, source: SessionSource) -> bool:
        """Return True if this person may give admin commands."""
        platform = self.config.platforms.get(source.platform)
        if platform is None or source.platform in self.own_doors:
            return await self.may_talk(source)
        if platform.allow_admin_from or platform.allow_from == "all":
            return any(one in platform.allow_admin_from for one in ids_of(source))
        return await self.may_talk(source)

    async def may_approve(self, source: SessionSource, asked_of: Collection[str]) -> bool:
        """Return True if this person may answer an approval that a turn of the people with the ids `asked_of`
        asks for."""
        if not await self.is_admin(source):
            return False
        platform = self.config.platforms.get(source.platform)
        if platform is None or source.platform in self.own_doors or platform.allow_admin_from:
            return True
        return not asked_of or any(one in asked_of for one in ids_of(source))

    async def new_code(self, source: SessionSource) -> str | None:
        """Return a pairing code for a person without access; None if this person gets none. Its hash is
        stored before it is returned. The code itself must not be stored or logged."""
        platform = self.config.platforms.get(source.platform)
        if platform is None or not offers_pairing(platform, source):
            return None
        code = pairing.new_code()
        person = pairing.Person(source.platform, ids_of(source)[0], source.user_name, self.world.time())
        asked = await self.database.write(pairing.ask, person, pairing.sealed(code))
        return code if asked else None
