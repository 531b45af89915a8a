"""Rows of the table, their targets, and how they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.measure import Summary


@dataclass(frozen=True)
class Row:
    """One line: a contender in a case. `ok` is None if there is no target; `detail` is only in the JSON file."""

    case: str
    who: str
    us: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    must_be: str = ""
    ok: bool | None = None
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_summary(cls, case: str, who: str, result: Summary, note: str = "") -> Row:
        return cls(
            case,
            who,
            us=result.own_us,
            ratio=result.ratio,
            low=result.low,
            high=result.high,
            note=note,
            detail={"bare_us": result.bare_us, "pairs": result.pairs},
        )


def at_most(row: Row, limit: float) -> Row:
    assert row.ratio is not None
    return replace(row, must_be=f"<= {limit:.2f}", ok=row.ratio <= limit)


def at_least(row: Row, limit: float) -> Row:
    assert row.ratio is not None
    return replace(row, must_be=f">= {limit:.2f}", ok=row.ratio >= limit)


def _time(us: float) -> str:
    return f"{us:,.1f} us" if us < 10_000 else f"{us / 1000:,.0f} ms"


def not_installed(case: str, who: str) -> Row:
    return Row(case, who, note="not installed")


def show(rows: Sequence[Row], title: str) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", pad_edge=False)
    for name, align in (
        ("case", "left"),
        ("contender", "left"),
        ("time a batch", "right"),
        ("ratio", "right"),
        ("quartiles", "right"),
        ("must be", "right"),
        ("", "left"),
        ("note", "left"),
    ):
        table.add_column(name, justify=align, no_wrap=name != "note")  # type: ignore[arg-type]
    before = None
    for row in rows:
        if before is not None and row.case != before:
            table.add_section()
        mark = {None: Text(""), True: Text("ok", "green"), False: Text("MISSED", "bold red")}[row.ok]
        table.add_row(
            row.case if row.case != before else "",
            row.who,
            "" if row.us is None else _time(row.us),
            "" if row.ratio is None else f"{row.ratio:.3f}",
            "" if row.low is None else f"{row.low:.3f}-{row.high:.3f}",
            row.must_be,
            mark,
            row.note,
        )
        before = row.case
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # wide enough that notes wrap at most once or twice
    console.print(table)
