"""The endpoint of a model: address, model name and key.

The clients of both wire formats and the errors use it. The key, and any part of the address that may be a
secret, is never shown.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from ...base.errors import ConfigFinding, ConfigInvalid
from ...masking.secret_words import MASK

# Text with the form of a key, also of one that its server has partly masked.
_KEY = re.compile(r"\b(?:(?:sk|pk|key|gsk|xai|hf)[-_]|AIza)[\w*.…-]{8,}|(?<=[Bb]earer )\S+")
_SHORTEST_SECRET = 6
_LONGEST_QUOTE = 300

Body = dict[str, Any]
"""JSON object in the format of a vendor."""


@dataclass(frozen=True, slots=True, repr=False)
class Endpoint:
    """A model at an address."""

    provider: Literal["openai", "anthropic"]
    """Wire format of the server."""
    base_url: str
    model: str
    api_key: str | None = None
    context_length: int | None = None
    """Context length of the model in tokens, if known."""

    def __post_init__(self) -> None:
        try:
            url = urlsplit(self.base_url)
            is_valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
        except ValueError:
            is_valid = False
        findings: list[ConfigFinding] = []
        if not is_valid:
            problem = "it is no address of a server"
            findings.append(
                ConfigFinding("model.base_url", problem, "Write it like http://localhost:11434/v1.")
            )
        if self.api_key is not None and not re.fullmatch(r"[!-~]+", self.api_key):
            problem = "it has characters that no key has, such as a space or a line end"
            findings.append(ConfigFinding("model.api_key", problem, "Copy it again."))
        if findings:
            raise ConfigInvalid.of(findings)

    def __repr__(self) -> str:
        return f"Endpoint({self.provider}, {self.model} at {self.shown})"

    @property
    def shown(self) -> str:
        """The address without the parts that may be secret."""
        url = urlsplit(self.base_url)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}".rstrip("/")

    @property
    def host(self) -> str:
        """The name of the machine."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def sign_in(self) -> dict[str, str]:
        """The header for a user name and a password in the address; empty without them."""
        url = urlsplit(self.base_url)
        if not url.username:
            return {}
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        return {"authorization": f"Basic {b64encode(pair).decode()}"}

    @property
    def is_local(self) -> bool:
        """True for a server on this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def origin(self) -> str:
        """Name of this model on this server. Opaque data of an answer is sent back only to its origin."""
        return f"{self.provider}/{self.host}/{self.model}"

    def quoted(self, text: str) -> str:
        """Return text of this server in a form that may be shown: one short line without secrets."""
        text = " ".join(text.split())
        url = urlsplit(self.base_url)
        in_query = [value for values in parse_qs(url.query).values() for value in values]
        for secret in (self.api_key, url.password, *in_query):
            if secret and len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, MASK)
        text = _KEY.sub(MASK, text)
        return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"
