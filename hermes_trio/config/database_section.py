"""The section about the store."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .section import Section


class DatabaseConfig(Section, frozen=True):
    """The store: a file in the home, or a PostgreSQL server that several gateways may share."""

    url: Annotated[
        Annotated[str, Meta(pattern=r"^postgres(?:ql)?://")] | None,
        Meta(
            description="PostgreSQL database; needs hermes-trio[postgres]. Left out: a file in the home.",
            extra={"allowed": "an address such as postgresql://user:password@host/database"},
        ),
    ] = None
    schema: Annotated[
        Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_]{0,62}$")],
        Meta(
            description="Schema of the tables in that database.",
            extra={"allowed": "a name of small letters, digits and _"},
        ),
    ] = "hermes_trio"
    node: Annotated[
        Annotated[str, Meta(pattern=r"^\S{1,100}$")] | None,
        Meta(
            description="Name of this home among those that share the database. Left out: host and path.",
            extra={"allowed": "a name without spaces that no other home has"},
        ),
    ] = None
    address: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$", max_length=300)] | None,
        Meta(
            description="Where other gateways reach this one. Left out: web.host, or the machine's name.",
            extra={"allowed": "an address such as http://10.0.0.5:8642"},
        ),
    ] = None
    lease: Annotated[
        float,
        Meta(
            ge=2,
            le=3600,
            description="Seconds without a write after which another gateway takes over.",
        ),
    ] = 30
