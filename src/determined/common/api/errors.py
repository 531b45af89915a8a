"""Errors that programs catch around calls of the SDK."""

from __future__ import annotations

from determined.errors import DeterminedError, NotFoundException

__all__ = [
    "APIException",
    "BadRequestException",
    "ForbiddenException",
    "MasterNotFoundException",
    "NotFoundException",
    "UnauthenticatedException",
]

# What the REST client raised for any failed request: here it is whatever the library raises itself.
APIException = DeterminedError


class BadRequestException(DeterminedError):
    """A request that the master refused; nothing raises it here."""


class MasterNotFoundException(BadRequestException):
    """A master that does not answer; nothing raises it here."""


class UnauthenticatedException(BadRequestException):
    """A missing login; nothing raises it here."""


class ForbiddenException(BadRequestException):
    """A missing right; nothing raises it here."""
