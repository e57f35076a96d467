"""Refusals of the simulated API server, as the `Status` that kube-apiserver answers.

Source: `metav1.Status` and the reasons in k8s.io/apimachinery, `pkg/api/errors`, v0.36.
"""

from http import HTTPStatus
from typing import Any


class RefusedError(Exception):
    """A request that the API server refuses; nothing was changed."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    @property
    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
        }


def not_served() -> RefusedError:
    """Return the refusal for a kind that the server does not have."""
    what = "the server could not find the requested resource"
    return RefusedError(HTTPStatus.NOT_FOUND, "NotFound", what)


def not_found(what: str) -> RefusedError:
    """Return the refusal for an object that does not exist."""
    return RefusedError(HTTPStatus.NOT_FOUND, "NotFound", f"{what} not found")


def conflict(message: str) -> RefusedError:
    """Return the refusal for a precondition that does not hold."""
    return RefusedError(HTTPStatus.CONFLICT, "Conflict", message)


def already_exists(what: str) -> RefusedError:
    """Return the refusal for a name that is taken."""
    return RefusedError(HTTPStatus.CONFLICT, "AlreadyExists", f"{what} already exists")


def invalid(message: str) -> RefusedError:
    """Return the refusal for an object that breaks a rule."""
    return RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message)


def bad_request(message: str) -> RefusedError:
    """Return the refusal for a request that cannot be read."""
    return RefusedError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def expired(message: str) -> RefusedError:
    """Return the refusal for a version or a page of a list that the server has forgotten."""
    return RefusedError(HTTPStatus.GONE, "Expired", message)
