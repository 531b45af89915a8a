"""Responses of the server: routes whose results are sent as JSON that every browser can read, and downloads."""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Response
from fastapi.routing import APIRoute
from starlette.background import BackgroundTask

from determined.config.metric_values import not_finite
from determined.web.memory import give_back_memory

_EXACT = 2**53  # a browser rounds larger integers
_LARGE = 500_000  # bytes; building a response of this size takes tens of megabytes of memory


class Route(APIRoute):
    """A route whose function returns plain data, which is sent as JSON without being validated again.

    The type of the answer is for the OpenAPI document alone (`openapi.py`): preparing the validation of all answers
    would add a tenth of a second to the start of the server.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **kwargs: Any) -> None:
        self.function = endpoint
        super().__init__(path, _answering(endpoint), **{**kwargs, "response_model": None})


def _answering(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler that sends the return value of an endpoint as JSON."""
    if inspect.iscoroutinefunction(endpoint):

        @functools.wraps(endpoint)
        async def answer_soon(*args: Any, **arguments: Any) -> Response:
            return _response(await endpoint(*args, **arguments))

        return answer_soon

    @functools.wraps(endpoint)
    def answer(*args: Any, **arguments: Any) -> Response:
        return _response(endpoint(*args, **arguments))

    return answer


def _response(data: Any) -> Response:
    """Return a response with the data as JSON. After a large one, free memory is returned to the system."""
    if isinstance(data, Response):
        return data
    content = encoded(data)
    afterwards = BackgroundTask(give_back_memory) if len(content) >= _LARGE else None
    return Response(content, media_type="application/json", background=afterwards)


def encoded(data: Any) -> bytes:
    """Encode data as JSON; values that JSON or a browser cannot represent become text (see `api/shapes.py`).

    Except numbers that are not finite, which become null, as charts need it: whatever a program can write passes
    `number` or `representable` first.
    """
    try:
        return orjson.dumps(data, option=orjson.OPT_STRICT_INTEGER | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        # Something that orjson refuses: an integer beyond 2**53, half of a surrogate pair, or a key that is no text.
        return json.dumps(representable(data)).encode()


def representable(value: Any) -> Any:
    """Return plain data in which values that JSON or a browser cannot represent are replaced by text."""
    if isinstance(value, dict):
        return {str(key): representable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [representable(inner) for inner in value]
    if hasattr(value, "tolist"):  # an array of a chart, in which NaN means that there is no value
        return [None if inner != inner else inner for inner in value.tolist()]
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return str(value)
    return value


def number(value: float | None) -> Any:
    """Return a number for JSON: the text "NaN", "Infinity" or "-Infinity" if it is not finite."""
    if value is None or math.isfinite(value):
        return value
    return not_finite(value)


def attachment(content: bytes, name: str, media_type: str) -> Response:
    """Return a response that the browser saves as a file. `name` must not need escaping."""
    return Response(content, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'})
