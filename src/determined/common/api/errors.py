"""Exceptions that programs catch around calls of the SDK."""

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

# The REST client raised this for any failed request; here it is the base of all errors of this library.
APIException = DeterminedError


class BadRequestException(DeterminedError):
    """A request that the master rejected; never raised here."""


class MasterNotFoundException(BadRequestException):
    """A master that does not respond; never raised here."""


class UnauthenticatedException(BadRequestException):
    """A missing login; never raised here."""


class ForbiddenException(BadRequestException):
    """A missing permission; never raised here."""
