"""The folder of what is remembered for the people of a conversation. Below `memories` in the home:

| the conversation | the folder |
|---|---|
| the owner's: on the page, by the API, in the terminal, or in a chat | `.` |
| of one other person, in any chat of a platform | `people/<platform>-<id>` |
| of several people, who all read the answers | `chats/<platform>-<account>-<chat>-<thread>` |

In chats the owner is the only person that the platform's settings name: in `allow_admin_from`, or in
`allow_from` if there are no admins. Where they name several people, each has a memory of their own.

In a name, each character that is not a small letter, a digit or `_` is written as `%` and its bytes. So no
two names are the same, also where the case of letters does not count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from ..base.messages import SessionSource, is_shared
from ..config.schema import GatewayConfig, PlatformConfig

FOLDER = "memories"
LONGEST_NAME = 200
_UNUSUAL = re.compile(r"[^a-z0-9_]")


def memory_folder(home: Path, config: GatewayConfig, source: SessionSource | None) -> Path:
    """Return the folder for the conversation that began with this source. One whose source is unknown is
    nobody's."""
    folder = home / FOLDER
    if source is None:
        return folder / "people" / "unknown"
    platform = config.platforms.get(source.platform)
    if platform is None:  # a door that asks for the owner's key
        return folder
    if is_shared(
        source,
        group_sessions_per_user=config.group_sessions_per_user,
        thread_sessions_per_user=config.thread_sessions_per_user,
    ):
        chat = _name(source.platform, source.account, source.chat_id, source.thread_id or "")
        return folder / "chats" / chat
    person = source.participant or source.chat_id
    if _is_only_person(platform, (person, source.user_id)):
        return folder
    return folder / "people" / _name(source.platform, person)


def _is_only_person(platform: PlatformConfig, ids: Collection[str | None]) -> bool:
    """Return True if the settings of a platform name one person, by one of these ids."""
    listed = () if platform.allow_from == "all" else platform.allow_from
    named = platform.allow_admin_from or listed
    return len(named) == 1 and named[0] in ids


def _name(*parts: str) -> str:
    name = "-".join(_UNUSUAL.sub(_bytes_of, part) for part in parts)
    return name if len(name) <= LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def _bytes_of(character: re.Match[str]) -> str:
    return "".join(f"%{byte:02x}" for byte in character[0].encode())
