"""Exception handlers: answer each error with one sentence and maybe a hint, never with a stack trace."""

from __future__ import annotations

import json

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from determined.config.secrets.masking import mask_secrets
from determined.errors import (
    CheckpointNotFound,
    DeterminedError,
    NotFoundException,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    StoreVersionError,
)
from determined.web.answers import encoded

_EXAMINE = "`det store check` examines a store; DET_STORE names another one."


def problem(status: int, error: str, hint: str | None = None) -> Response:
    """Return the response for an error: its status, one sentence, and maybe a hint."""
    return Response(encoded({"error": error, "hint": hint}), status, media_type="application/json")


def handle_errors(app: FastAPI) -> None:
    """Register handlers that answer every exception of a route with one sentence."""
    app.add_exception_handler(DeterminedError, _known)
    app.add_exception_handler(OSError, _known)
    app.add_exception_handler(json.JSONDecodeError, _damaged)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unknown)


def _known(request: Request, error: Exception) -> Response:
    """Answer an error of this library or of the operating system with its message and a fitting status."""
    text = str(mask_secrets(str(error) or type(error).__name__))
    if isinstance(error, (NotFoundException, CheckpointNotFound, FileNotFoundError)):
        return problem(404, text, "It may have been deleted since.")
    if isinstance(error, StoreUnavailable):
        return problem(503, text, "The page tries again by itself.")
    if isinstance(error, (StoreVersionError, StoreReadOnly)):
        return problem(409, text)
    if isinstance(error, StoreError):
        return problem(503, text, _EXAMINE)
    return problem(409 if isinstance(error, DeterminedError) else 500, text)


def _damaged(request: Request, error: Exception) -> Response:
    """Answer a request that read invalid JSON from the store. Invalid JSON in a request is handled by `_invalid`."""
    return problem(503, f"data in the store are damaged: {error}", _EXAMINE)


def _invalid(request: Request, error: Exception) -> Response:
    """Answer a request with a parameter or a body that is not valid, naming the first mistake."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    # A part such as `list[int]` names one of several possible types.
    where = ".".join(str(part) for part in first["loc"][1:] if "[" not in str(part)) or str(first["loc"][0])
    return problem(422, f"{where[:200]}: {first['msg']}")


def _http(request: Request, error: Exception) -> Response:
    """Answer an HTTPException of a route with its status and message."""
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail))


def _unknown(request: Request, error: Exception) -> Response:
    """Answer an unexpected exception with the name of its class; the server prints the stack trace in its terminal."""
    return problem(
        500,
        f"an error in the server: {type(error).__name__}",
        "The terminal in which det ui runs shows where. The rest of the page still works.",
    )
