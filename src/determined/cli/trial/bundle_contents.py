"""The contents of a support bundle: what is known about a trial, without code, weights and secrets."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from determined.cli.display.json_rows import checkpoint_plain, experiment_plain, log_plain, metric_plain, trial_plain
from determined.cli.display.output import iso_time, jsonable
from determined.config.secrets.redaction import Redaction

if TYPE_CHECKING:
    from determined.experiment.files import ExperimentFiles
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store

# Bounds the memory for logs of any length.
_PAGE = 1000
# The newest part is enough for support, and a runner may write for months.
_MOST_BYTES_OF_RUNNER_LOG = 4 * 2**20
# Variables whose values are included; of all others only the names.
_HARMLESS_VARIABLES = ("CUDA_VISIBLE_DEVICES", "DET_STORE_PATIENCE", "LANG", "LC_ALL", "OMP_NUM_THREADS", "TERM", "TZ")

_README = """\
Trial {trial} of experiment {experiment}, collected by `det trial support-bundle`.

experiment.json, trial.json  the experiment and the trial: states, reasons, and every attempt of the trial
config.yaml                  the configuration with all defaults
original.yaml                the configuration as the user wrote it
metrics.jsonl                all reports, including those that a restart discarded
checkpoints.json             the checkpoints with the names and sizes of their files, without the files
logs.jsonl                   the output of the processes of the trial
runner.log                   the output of the background runner of the experiment, if there was one
versions.json                Python, packages and machine
environment.json             the names of all environment variables, and the values of a few harmless ones

Secrets known from the configuration and the environment are hidden, and so is text that looks like a secret. A program
may have printed others: review logs.jsonl before you share this archive.
"""


def bundle_contents(store: Store, trial: Trial, experiment: Experiment) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the name of each file and its text in pieces."""
    from determined.config.dump import dump_yaml

    files = _files(experiment)
    redaction = Redaction(_secrets(files))
    yield "README.txt", [_README.format(trial=trial.id, experiment=experiment.id)]
    yield "experiment.json", [_json(redaction.data({**experiment_plain(experiment), "notes": experiment.notes}))]
    yield "trial.json", [_json(redaction.data({**trial_plain(trial), "attempts": _attempts(store, trial)}))]
    yield "config.yaml", [dump_yaml(redaction.data(experiment.config))]
    yield "original.yaml", [redaction.text(experiment.original)]
    reports = [*store.metrics(trial.id, archived=True), *store.samples(trial.id)]
    yield (
        "metrics.jsonl",
        (
            _json_line(redaction.data({**metric_plain(row), "attempt": row.attempt, "archived": row.archived}))
            for row in reports
        ),
    )
    checkpoints = [checkpoint_plain(row, experiment.metric) for row in store.checkpoints(trial.id)]
    yield "checkpoints.json", [_json(redaction.data(checkpoints))]
    yield "logs.jsonl", (_json_line(redaction.data(line)) for line in _logs(store, trial.id))
    if files is not None and files.runner_log.is_file():
        yield "runner.log", map(redaction.text, _last_lines(files.runner_log))
    yield "versions.json", [_json(redaction.data(_versions()))]
    yield "environment.json", [_json(redaction.data(_environment()))]


def _files(experiment: Experiment) -> ExperimentFiles | None:
    """Return the files of an experiment, or None if they are not on this machine."""
    from determined.experiment.files import ExperimentFiles, experiment_dir

    directory = None if experiment.is_standalone else experiment_dir(experiment.key)
    return None if directory is None or not directory.is_dir() else ExperimentFiles(directory)


def _secrets(files: ExperimentFiles | None) -> Iterator[str]:
    """Yield all secrets known on this machine, because a program may have written any of them anywhere."""
    from determined.config.secrets.line_mask import environment_secrets
    from determined.config.secrets.masking import secrets_in

    yield from environment_secrets(os.environ)
    for config in files.configs() if files is not None else ():
        yield from secrets_in(config)


def _attempts(store: Store, trial: Trial) -> list[dict[str, Any]]:
    """Return the attempts of a trial as JSON data."""
    return [
        {
            "number": row.number,
            "state": row.state,
            "start_step": row.start_step,
            "host": row.process.host,
            "pid": row.process.pid,
            "run_dir": row.run_dir,
            "started": iso_time(row.started),
            "ended": iso_time(row.ended),
            "seconds": row.seconds,
        }
        for row in store.attempts(trial.id)
    ]


def _logs(store: Store, trial_id: int) -> Iterator[dict[str, Any]]:
    """Yield the log lines of a trial as JSON data, read in pages."""
    after = 0
    while page := store.logs(trial_id, after, _PAGE):
        after = page[-1].id
        yield from (log_plain(line, trial_id) for line in page)


def _last_lines(path: Path) -> Iterator[str]:
    """Yield the lines in the last part of a file."""
    with path.open("rb") as file:
        before = max(0, path.stat().st_size - _MOST_BYTES_OF_RUNNER_LOG)
        file.seek(before)
        if before:
            file.readline()  # skip the rest of a line that began earlier
        for line in file:
            yield line.decode(errors="replace")


def _versions() -> dict[str, Any]:
    """Return the versions of Python and all installed packages, and facts about the machine."""
    import determined

    installed = {found.name: found.version for found in metadata.distributions() if found.name}
    return {
        "determined_pytorch": determined.__version__,
        "torch": installed.get("torch"),
        "python": sys.version,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "packages": dict(sorted(installed.items(), key=lambda item: item[0].lower())),
    }


def _environment() -> dict[str, Any]:
    """Return the names of all environment variables and the values of harmless ones."""
    return {
        "names": sorted(os.environ),
        "values": {name: os.environ[name] for name in _HARMLESS_VARIABLES if name in os.environ},
    }


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), indent=2) + "\n"


def _json_line(value: Any) -> str:
    return json.dumps(jsonable(value)) + "\n"
