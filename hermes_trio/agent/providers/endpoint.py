"""Where a model is asked: the address, the model's name, and the secret that opens the door.

Both vendors' clients and their errors speak of it. The secret, and whatever of an address may be one, is
never shown.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from ...base.errors import ConfigFinding, ConfigInvalid
from ...config.section import MASK

# What looks like a key wherever it stands, also one that its server has masked in part.
_KEY = re.compile(r"\b(?:(?:sk|pk|key|gsk|xai|hf)[-_]|AIza)[\w*.…-]{8,}|(?<=[Bb]earer )\S+")
_SHORTEST_SECRET = 6
_LONGEST_QUOTE = 300

Body = dict[str, Any]
"""JSON as a vendor wants or sends it."""


@dataclass(frozen=True, slots=True, repr=False)
class Endpoint:
    """A model at an address."""

    provider: Literal["openai", "anthropic"]
    """Whose way of speaking it understands."""
    base_url: str
    model: str
    api_key: str | None = None
    context_length: int | None = None
    """Tokens that it can take, if anybody has said so."""

    def __post_init__(self) -> None:
        try:
            url = urlsplit(self.base_url)
            known = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
        except ValueError:
            known = False
        findings: list[ConfigFinding] = []
        if not known:
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
        """The address without what may be secret in it."""
        url = urlsplit(self.base_url)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}".rstrip("/")

    @property
    def host(self) -> str:
        """The name of the machine."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def sign_in(self) -> dict[str, str]:
        """The header that a name and a password in the address become."""
        url = urlsplit(self.base_url)
        if not url.username:
            return {}
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        return {"authorization": f"Basic {b64encode(pair).decode()}"}

    @property
    def is_local(self) -> bool:
        """Whether it is a server on this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def origin(self) -> str:
        """Who wrote an answer: what is opaque in it goes back to nobody else."""
        return f"{self.provider}/{self.host}/{self.model}"

    def quoted(self, text: str) -> str:
        """What this server said, fit to be shown: one line, not too long, and no secret in it."""
        text = " ".join(text.split())
        url = urlsplit(self.base_url)
        asked_for = [value for values in parse_qs(url.query).values() for value in values]
        for secret in (self.api_key, url.password, *asked_for):
            if secret and len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, MASK)
        text = _KEY.sub(MASK, text)
        return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"
