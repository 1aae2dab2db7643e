"""The app that a workspace needs: what it may do, and what it is told. Pure."""

from __future__ import annotations

import json
from urllib.parse import quote

SCOPES = (
    "app_mentions:read",
    "channels:history",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "im:history",
    "mpim:history",
    "reactions:write",
    "users:read",
)
EVENTS = ("app_mention", "message.channels", "message.groups", "message.im", "message.mpim")

MANIFEST = {
    "display_information": {"name": "Hermes"},
    "features": {
        "app_home": {"messages_tab_enabled": True, "messages_tab_read_only_enabled": False},
        "bot_user": {"display_name": "hermes", "always_online": True},
        "slash_commands": [
            {"command": "/hermes", "description": "A command, such as status or stop", "usage_hint": "help"}
        ],
    },
    "oauth_config": {"scopes": {"bot": list(SCOPES)}},
    "settings": {
        "event_subscriptions": {"bot_events": list(EVENTS)},
        "interactivity": {"is_enabled": True},
        "socket_mode_enabled": True,
        "token_rotation_enabled": False,
    },
}


def link() -> str:
    """Return the address that offers to create the app."""
    manifest = json.dumps(MANIFEST, separators=(",", ":"))
    return f"https://api.slack.com/apps?new_app=1&manifest_json={quote(manifest)}"
