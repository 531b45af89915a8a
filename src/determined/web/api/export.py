"""`/api/export`: the current view of the page as one HTML file that needs no server."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from determined.web.answers import Route, attachment

router = APIRouter(route_class=Route)


class ExportRequest(BaseModel):
    """The address of a view, such as `/trials/3?...`, and the requests whose answers it shows."""

    model_config = ConfigDict(extra="forbid")

    address: str = Field(max_length=20_000)
    requests: list[str] = Field(default=[], max_length=1000)


@router.post("/api/export", response_class=Response, responses={200: {"content": {"text/html": {}}}})
def export(request: Request, body: ExportRequest) -> Response:
    """Return the view as a file. Without a list of requests, those that the address needs are included."""
    from determined.web.export import export_page

    content = export_page(request.app, request.app.state.static, body.address, body.requests)
    return attachment(content, "det-view.html", "text/html")
