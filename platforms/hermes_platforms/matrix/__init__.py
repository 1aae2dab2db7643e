"""Matrix, by its Client-Server API: rooms, direct chats, threads. Without end-to-end encryption.

adapter          connects an account
matrix_link      sends and receives
calls            one call over HTTP, with the outcomes of the contract
incoming         events of people, from the sync of the server
rooms            what is known of the rooms, and invitations
formatting       Markdown to the content of a message        pure
parsing          an event of a room to an event              pure
setup            questions of `hermes-trio setup matrix`
checks           checks of `hermes-trio doctor matrix`
trial            a trial without an account
testing          a home server for tests
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import install_command

from ..options import address, check_people, switch

if TYPE_CHECKING:
    from .adapter import MatrixAdapter

USER_ID = re.compile(r"@[^\s:]{1,200}:[\w.:\[\]-]{1,200}", re.ASCII)


def from_config(platform: PlatformConfig) -> MatrixAdapter:
    """Return the adapter for `platforms.matrix` of a configuration."""
    ask = "Run `hermes-trio setup matrix`, which tells where it is."
    if not platform.token:
        raise ConfigInvalid("platforms.matrix.token", "the access token is missing", ask)
    if platform.base_url is None or address(platform.base_url) is None:
        remedy = "Write the address of your home server, like https://matrix.example.org."
        raise ConfigInvalid("platforms.matrix.base_url", "it is no address of a server", remedy)
    remedy = "Write it whole, like @ann:example.org."
    check_people("matrix", platform, USER_ID.fullmatch, "is no Matrix id", remedy)
    reacts = switch("matrix", platform, "reactions", default=False)
    try:
        from .adapter import MatrixAdapter
    except ModuleNotFoundError as error:
        if error.name != "markdown_it":
            raise
        remedy = f"Run `{install_command('matrix')}`."
        raise ConfigInvalid("platforms.matrix", "it needs markdown-it-py", remedy) from error
    return MatrixAdapter(
        platform.token,
        base_url=platform.base_url,
        require_mention=platform.require_mention,
        allow_from=platform.allow_from,
        reacts=reacts,
    )
