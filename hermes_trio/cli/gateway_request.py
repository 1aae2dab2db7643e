"""Requests of a command to the gateway that runs in the home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from ..base.errors import GatewayError
from ..base.tls import httpx
from ..config.config_file import home_directory, load_config
from ..host.home.home_lock import is_locked
from ..host.home.state_file import read_status
from ..host.processes.process_identity import is_alive
from ..web.http.auth import web_key

TIMEOUT = 10.0
"""Seconds for the answer of the gateway."""


class NotAnswered(GatewayError):
    """No gateway runs, or the running one refuses."""


def ask_gateway(method: str, path: str, body: object = None, *, timeout: float = TIMEOUT) -> Any:
    """Send a request to the gateway of the home, and return its answer. Raises `NotAnswered`."""
    home = home_directory(os.environ)
    address = _address(home)
    key = web_key(home, load_config(home, os.environ).config.web)
    try:
        # The key must not go through a proxy of the environment.
        with httpx.Client(trust_env=False, timeout=timeout) as http:
            url = address + quote(path)
            answer = http.request(method, url, json=body, headers={"Authorization": f"Bearer {key}"})
    except httpx.HTTPError as error:
        raise NotAnswered(f"the gateway does not answer at {address} ({error}). Read its log.") from error
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        raise NotAnswered("the key was changed after the start of the gateway. Run `hermes-trio restart`.")
    if not answer.is_success:
        unclear = f"the gateway answered {answer.status_code}. Try again in a minute."
        raise NotAnswered(_reason(answer.content) or unclear)
    return msgspec.json.decode(answer.content)


def _reason(content: bytes) -> str:
    try:
        error = msgspec.json.decode(content)["error"]
        return f"{error['message']} {error['remedy']}"
    except (msgspec.MsgspecError, KeyError, TypeError):
        return ""


def _address(home: Path) -> str:
    """Return the address of the gateway of this home. Raise `NotAnswered` if there is none."""
    status = read_status(home) if is_locked(home) else None
    if status is None or not is_alive(status.process):
        raise NotAnswered("no gateway is running. `hermes-trio run` starts one and prints a link.")
    if status.web is None:
        raise NotAnswered(
            "the gateway has no page: it is starting or ending, or runs inside another program. "
            "Run `hermes-trio status`."
        )
    return status.web
