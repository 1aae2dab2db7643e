"""The error of an operation that the state of a session does not allow."""

from __future__ import annotations

from ...base.errors import GatewayError


class OperationRefused(GatewayError):
    """An operation was refused, and nothing was changed."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.message, self.remedy = message, remedy
