"""A refusal: GitHub's status, its message and, where it has them, its list of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DOCS = "https://docs.github.com/rest"


class Refusal(Exception):
    """Raised anywhere below a route; the application turns it into the answer."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: Sequence[Any] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON body, in GitHub's form."""
        body: dict[str, Any] = {"message": self.message}
        if self.errors:
            body["errors"] = self.errors
        return body | {"documentation_url": DOCS, "status": str(self.status)}


def not_found() -> Refusal:
    """What one may not see is not there."""
    return Refusal(404, "Not Found")


def unprocessable(*errors: Any) -> Refusal:
    """The form the review endpoints use: plain sentences."""
    return Refusal(422, "Unprocessable Entity", errors)


def invalid(resource: str, field: str, message: str, code: str = "custom") -> Refusal:
    """The form most endpoints use: a resource, a field, a code."""
    error = {"resource": resource, "code": code, "field": field, "message": message}
    return Refusal(422, "Validation Failed", [error])


def invalid_request(detail: str) -> Refusal:
    """The form the checks endpoints use."""
    return Refusal(422, f"Invalid request.\n\n{detail}")
