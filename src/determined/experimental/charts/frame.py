"""Show a chart in a notebook: a frame that has no access to the notebook, and needs no server."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from determined import built_page
from determined.errors import DeterminedError
from determined.experimental.charts.data import ChartData, read_chart
from determined.experimental.charts.selection import choose
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.experimental.session import Session

_SCRIPT = "chart.js"
_HEIGHT = 456  # in pixels: the choices above the chart, the chart, and the line below it
_LEGEND_ROW = 24
_IN_LEGEND = 14  # `LEGEND` in `page/src/charts/curves.tsx`: more curves have no legend
_NAMES_IN_ROW = 3


def chart_html(data: ChartData) -> str:
    """Return the chart as a sandboxed frame, or a sentence that says why there is none, with notes below."""
    notes = "".join(_paragraph(note) for note in data.notes)
    if data.metric is None:
        return _paragraph("No curves yet: no trial has reported a number.") + notes
    static = built_page.STATIC
    if not _is_built(static):
        return _paragraph(f"No chart: {built_page.HOW_TO_BUILD}") + notes
    title = f"Curves of {data.metric} of {counted(len(data.trials), 'trial')}"
    inner = built_page.document(static, _SCRIPT, data.content())
    # The document is the value of an attribute, in which escaped text cannot end anything. Without `allow-same-origin`
    # its script, which the document's policy alone admits, reaches neither the notebook nor its cookies.
    return (
        f'<iframe sandbox="allow-scripts" title="{escape(title)}" width="100%" height="{_height(len(data.trials))}" '
        f'style="border: 0" srcdoc="{escape(inner)}"></iframe>{notes}'
    )


def chart_of(session: Session, trial_ids: tuple[int, ...] = (), experiment_id: int | None = None) -> str:
    """Return the chart of trials, or of the best trials of an experiment; a sentence if it cannot be drawn.

    Nothing is raised: the notebook shows the chart below other output, which would be lost.
    """
    experiments = () if experiment_id is None else (experiment_id,)
    try:
        return chart_html(session.read(lambda store: read_chart(store, choose(store, trial_ids, experiments))))
    except DeterminedError as error:
        return _paragraph(f"No chart: {error}")


def _paragraph(text: str) -> str:
    """Return a text as a paragraph; half of a surrogate pair, which cannot be sent to a browser, is replaced."""
    return f"<p>{escape(text.encode('utf-8', 'replace').decode())}</p>"


def _is_built(static: Path) -> bool:
    return built_page.is_built(static) and (static / _SCRIPT).is_file()


def _height(trials: int) -> int:
    """Return the height of the frame, in pixels, in which nothing has to be scrolled."""
    rows = -(-trials // _NAMES_IN_ROW) if 1 < trials <= _IN_LEGEND else 0
    return _HEIGHT + rows * _LEGEND_ROW
