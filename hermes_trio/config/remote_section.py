"""The sections about a container or a host in which commands run."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .section import Section

REMOTE = frozenset({"docker", "ssh"})
"""Values of `terminal.sandbox` with which commands do not see the files of this machine."""


class DockerConfig(Section, frozen=True):
    """The container in which commands run with `sandbox: docker`. You start and stop it."""

    container: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] | None,
        Meta(description="Name of a running container.", extra={"allowed": "a name or an id"}),
    ] = None
    program: Annotated[
        str, Meta(min_length=1, description="Program that reaches it, such as docker or podman.")
    ] = "docker"


class SshConfig(Section, frozen=True):
    """The host on which commands run with `sandbox: ssh`."""

    host: Annotated[
        Annotated[str, Meta(pattern=r"^[^-\s]\S*$")] | None,
        Meta(
            description="Its name for ssh, which takes user, port and key from its own configuration.",
            extra={"allowed": "a name or user@name"},
        ),
    ] = None
