"""The requests that the views of the page make, for an export without a browser.

They repeat the requests of `page/src/pages/`, so that an export needs neither a browser nor Node to run the page.
`tests/web/pages/test_files.py` compares the two. If a request is missing here, the exported page says that its data is
not in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from determined.curves import metric_keys
from determined.web.export_brushes import brushed

Ask = Callable[[str], Any]

_STATISTICS = ("last", "min", "max", "mean")
_MOST_NUMBERS = 100_000  # in one range of an address
_MOST_CURVES = 100  # trials in one chart, as the page draws them, and charts of one trial
_POINTS = 1000  # of a curve; fewer if there are many curves, as in the page
_FEWEST_POINTS = 200
_ALL_POINTS = 200_000
_SMALL_CHART = 400  # points of a curve in one of many charts


def requests_of(address: str, ask: Ask) -> None:
    """Make the requests of the view at an address."""
    path, _, query = address.partition("?")
    params = {name: values[-1] for name, values in parse_qs(query).items()}
    words = [word for word in path.split("/") if word]
    match words:
        case ["experiments", number]:
            _experiment(number, params, ask)
        case ["trials", number]:
            _trial(number, params, ask)
        case ["compare"]:
            _compare(params, ask)
        case ["failures"]:
            ask(f"/api/failures?experiment={params['experiment']}" if "experiment" in params else "/api/failures")
            ask("/api/experiments")
        case ["queue"]:
            ask("/api/queue")
        case ["models"]:
            ask("/api/models")
        case ["models", number]:
            ask(f"/api/models/{number}")
        case _:
            ask("/api/experiments?archived=1" if params.get("archived") == "1" else "/api/experiments")
            ask(_trials(params))
            ask("/api/metrics")


def _experiment(number: str, params: dict[str, str], ask: Ask) -> None:
    """Make the requests of the page of an experiment, with all its tabs."""
    detail = ask(f"/api/experiments/{number}")
    trials = ask(_trials(params, number))
    metrics = ask(f"/api/metrics?experiment={number}")
    if detail is None or trials is None or metrics is None:
        return
    for rest in ("checkpoints", *([] if detail["row"]["standalone"] else ["decisions"])):
        ask(f"/api/experiments/{number}/{rest}")
    _code(number, params, ask)
    ask(f"/api/failures?experiment={number}")
    only = brushed(trials["rows"], params.get("brush", ""), detail["searched"])
    if only is None or only:  # the page makes no request for the log of no trial
        _log({"experiment": number, **({} if only is None else {"trials": _joined(only)})}, params, ask)
    key = _metric(params.get("metric"), metrics["keys"], detail["row"]["metric"])
    rows = sorted((row for row in trials["rows"] if only is None or row["id"] in only), key=_rank)
    selected = set(_numbers(params.get("sel", "")))
    shown = [row for row in rows if row["id"] in selected] if selected else rows[: _count(params.get("top"))]
    drawn = {row["id"] for row in shown}
    drawn |= {row["id"] for row in trials["rows"]}.intersection(_numbers(params.get("trial", "")))  # highlighted
    _curves(key, sorted(drawn), params, ask)


def _code(number: str, params: dict[str, str], ask: Ask) -> None:
    """Make the requests for code: the chosen file, or the first program, and the difference to another experiment."""
    code = ask(f"/api/experiments/{number}/code")
    paths = [file["path"] for file in (code or {"files": []})["files"]]
    first = next((path for path in paths if path.endswith(".py")), paths[0] if paths else None)
    if (path := params.get("file", first)) is not None:
        ask(f"/api/experiments/{number}/code/file?{urlencode({'path': path})}")
    if other := _numbers(params.get("other", "")):
        ask(f"/api/experiments/{number}/code/diff?other={other[0]}")


def _trial(number: str, params: dict[str, str], ask: Ask) -> None:
    """Make the requests of the page of a trial, with all its tabs."""
    detail = ask(f"/api/trials/{number}")
    if detail is None:
        return
    ask(f"/api/trials/{number}/checkpoints")
    _log({"trial": number}, params, ask)
    numeric = [metric for metric in detail["metrics"] if metric["numeric"]]
    if numeric and "at" in params:
        longest = max(numeric, key=lambda metric: metric["summary"]["count"])
        asked = {"key": longest["key"], "axis": params.get("axis", "batches"), "time": params["at"]}
        ask(f"/api/trials/{number}/moment?{urlencode(asked)}")
    wanted = params.get("find", "").lower()
    numeric.sort(key=lambda metric: wanted not in metric["key"].lower())  # those that the view shows come first
    archived = {"archived": 1} if params.get("archived") == "1" else {}
    for metric in numeric[:_MOST_CURVES]:
        _curves(metric["key"], [int(number)], params, ask, points=_SMALL_CHART, **archived)
    for key in detail["samples"][:_MOST_CURVES]:
        for range_ in _ranges(params):
            ask(f"/api/trials/{number}/profile?{urlencode({'key': key, 'points': _SMALL_CHART, **range_})}")


def _log(place: dict[str, str], params: dict[str, str], ask: Ask) -> None:
    """Make the requests of a log: without filters, and with those of the view."""
    ask(f"/api/logs?{urlencode({**place, 'limit': 500})}")
    if params.get("tab") == "log":
        names = {"level": "level", "rank": "rank", "stream": "stream", "find": "text", "at": "around_time"}
        filters = {names[name]: value for name, value in params.items() if name in names}
        filters |= {"regex": "1"} if params.get("regex") == "1" else {}
        ask(f"/api/logs?{urlencode({**place, 'limit': 500, **filters})}")


def _compare(params: dict[str, str], ask: Ask) -> None:
    """Make the requests of a comparison."""
    trials = ",".join(map(str, _numbers(params.get("trials", ""))))
    compared = ask(f"/api/compare?trials={trials}") if trials else None
    if compared is None:
        return
    _code_side_by_side(compared, params, ask)
    rows = compared["trials"]
    everywhere = ask("/api/metrics")
    own = ask(f"/api/metrics?trial={rows[0]['id']}")
    keys = [*(own or {"keys": []})["keys"], *(everywhere or {"keys": []})["keys"]]
    _curves(_metric(params.get("metric"), keys, rows[0]["metric"]), [row["id"] for row in rows], params, ask)


def _code_side_by_side(compared: dict[str, Any], params: dict[str, str], ask: Ask) -> None:
    """Make the request for the difference of two experiments' code: the chosen ones, or the first two that differ."""
    variants = {
        row["experiment"]: [file["variants"][place] for file in compared["code"]]
        for place, row in enumerate(compared["trials"])
    }
    first = next(iter(variants))
    left = next((one for one in variants if str(one) == params.get("left")), first)
    different = [one for one in variants if variants[one] != variants[left]]
    right = next((one for one in variants if str(one) == params.get("right")), next(iter(different), None))
    if right is not None and any(variants[one] != variants[first] for one in variants):
        ask(f"/api/experiments/{right}/code/diff?other={left}")


def _curves(
    key: str | None, trials: list[int], params: dict[str, str], ask: Ask, points: int | None = None, **more: int
) -> None:
    """Make the requests of a chart, if there is anything to draw."""
    if key is not None and trials:
        points = points or max(_FEWEST_POINTS, min(_POINTS, _ALL_POINTS // len(trials)))
        asked = {"axis": params.get("axis", "batches"), "key": key, "points": points, **more}
        for range_ in _ranges(params):
            ask(f"/api/curves?{urlencode({**asked, **range_, 'trials': ','.join(map(str, trials))}, quote_via=quote)}")


def _ranges(params: dict[str, str]) -> list[dict[str, str]]:
    """Return the range parameters of a chart's requests: none for the whole axis, and the zoom `x=100~400` if given."""
    limits = re.fullmatch("([0-9.e+-]+)~([0-9.e+-]+)", params.get("x", ""))
    return [{}, *([] if limits is None else [{"from": limits[1], "to": limits[2]}])]


def _trials(params: dict[str, str], experiment: str | None = None) -> str:
    """Return the path of the request for trials, with the metrics that columns, sort order and filter name."""
    words = re.findall(r'"(?:\\.|[^"])*"|[^\s()<>=!~,]+', params.get("q", ""))
    names = [*_listed(params.get("cols", "")), *_listed(params.get("sort", "")), *(word.strip('"') for word in words)]
    keys = {name.lstrip("-").rpartition(".")[0] for name in names if name.rpartition(".")[2] in _STATISTICS}
    pairs = [("archived", "1")] if params.get("archived") == "1" else []
    pairs += [] if experiment is None else [("experiment", experiment)]
    pairs += [("metric", key) for key in sorted(keys) if "/" in key]
    return f"/api/trials?{urlencode(pairs)}" if pairs else "/api/trials"


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list such as `1-3,17`; other text is ignored."""
    found: list[int] = []
    for first, last in re.findall(r"(?<![^,\s])([0-9]{1,9})(?:-([0-9]{1,9}))?(?![^,\s])", text):
        found += range(int(first), min(int(last or first), int(first) + _MOST_NUMBERS) + 1)
    return found


def _joined(numbers: Iterable[int]) -> str:
    """Return numbers as ranges such as `1-3,17`, as the page writes them."""
    parts: list[list[int]] = []
    for one in sorted(numbers):
        if parts and one == parts[-1][-1] + 1:
            parts[-1][1:] = [one]
        else:
            parts.append([one])
    return ",".join("-".join(map(str, part)) for part in parts)


def _listed(text: str) -> list[str]:
    """Return the items of a comma-separated list; a comma inside an item is escaped by a backslash."""
    return [re.sub(r"\\(.)", r"\1", item) for item in re.findall(r"(?:\\.|[^,\\])+", text)]


def _metric(wanted: str | None, keys: list[dict[str, Any]], searcher: str | None) -> str | None:
    """Return the key of the metric that the page draws: the wanted one, else the default; None if none is numeric."""
    numeric = [key["key"] for key in keys if key["numeric"]]
    return wanted if wanted in numeric else metric_keys.first_drawn(searcher, numeric)


def _count(text: str | None) -> int:
    """Return the number of curves that an address asks for; the default if it gives none or no valid number."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else _MOST_CURVES


def _rank(row: dict[str, Any]) -> tuple[float, int]:
    """Return the sort key of a trial by its best metric; trials without a number come last."""
    best = row["best"]
    if not isinstance(best, (int, float)):
        return float("inf"), row["id"]
    return (best if row["smaller_is_better"] else -best), row["id"]
