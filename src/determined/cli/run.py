"""`det run`: run any program as an experiment of one trial, passing its output through."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command
from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import log_line, visible, visible_lines
from determined.cli.display.table import number
from determined.cli.experiment.new.start import no_startup_hook, say_on_stderr
from determined.cli.running.run_or_queue import Sharing, reserve_slots, warnings_to, with_sharing
from determined.cli.running.text_view import Summary, location_of, missing_results, summarize, summary_plain
from determined.cli.store_access import opened_store
from determined.cli.streams import continuing_without_output

if TYPE_CHECKING:
    from determined.config.experiment import LoadedExperiment
    from determined.engines.base import Line
    from determined.engines.local import LocalEngine
    from determined.experiment.runner.run import Ended

# Characters. Nothing is lost, since the whole command is stored as the entrypoint.
_LONGEST_NAME = 80


# Options after the command belong to the program.
@click.command(cls=Command, action="run the program", context_settings={"allow_interspersed_args": False})
@click.argument("command", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", help="Name of the experiment (default: the command).")
@click.option("--description", metavar="TEXT", help="Description of the experiment.")
@click.option("--label", "labels", multiple=True, help="Label (repeatable).")
@click.option("--hparam", "hparams", metavar="NAME=VALUE", multiple=True, help="Hyperparameter (repeatable).")
@click.option(
    "--metric", default="loss", show_default=True, help="Validation metric that decides which checkpoint is best."
)
@click.option(
    "--smaller-is-better/--larger-is-better",
    default=True,
    help="Whether smaller or larger is better (default: smaller).",
)
@click.option("--max-restarts", type=click.IntRange(min=0), default=0, help="Maximum restarts after a failure.")
@click.option("--slots-per-trial", type=click.IntRange(min=1), default=1, help="Number of slots to use (default: 1).")
@click.option(
    "--config",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Any other setting of the configuration (repeatable).",
)
@click.option("--copy", is_flag=True, help="Run in a copy of this directory, as `det experiment create` does.")
@no_startup_hook
@click.option("--paused", is_flag=True, help="Only create the experiment; run it later with `det experiment activate`.")
@click.option("--detach", is_flag=True, help="Queue it; it runs in the background when slots are free.")
@with_sharing
@with_json
def run(
    command: tuple[str, ...],
    name: str | None,
    description: str | None,
    labels: tuple[str, ...],
    hparams: tuple[str, ...],
    metric: str,
    smaller_is_better: bool,
    max_restarts: int,
    slots_per_trial: int,
    overrides: tuple[str, ...],
    copy: bool,
    startup_hook: bool,
    paused: bool,
    detach: bool,
    sharing: Sharing,
    form: Form,
) -> None:
    """Run a program as an experiment of one trial.

    The program runs in this directory and writes to this terminal. Its code and output are stored, as well as what it
    reports and saves through determined.core. Everything after COMMAND is passed to it. Ctrl-C pauses it, a second one
    stops it without saving. The exit code is the program's.

    \b
    Example: det run --hparam lr=0.1 python train.py --epochs 3
    """
    if paused and detach:
        raise click.UsageError("--paused and --detach exclude each other")
    from determined.config.registry.search_methods import one_trial_method
    from determined.config.stored import StoredConfig
    from determined.experiment.code.startup_hook import has_hook, is_wanted
    from determined.experiment.creation.program_check import refuse_unknown_program

    # A startup hook may install the program, so it need not exist yet.
    if not (has_hook(Path.cwd()) and is_wanted(StoredConfig({"startup_hook": startup_hook}))):
        refuse_unknown_program(command, Path.cwd())
    loaded = _loaded(
        {
            "name": name or _shown(command),
            "description": description,
            "labels": list(labels),
            "entrypoint": list(command),
            "searcher": {"name": one_trial_method(), "metric": metric, "smaller_is_better": smaller_is_better},
            "resources": {"slots_per_trial": slots_per_trial},
            "max_restarts": max_restarts,
            "startup_hook": startup_hook,
            "hang_timeout": 0,  # the program may not train at all, so a long silence is no sign of a hang
        },
        [*(f"hyperparameters.{given}" for given in hparams), *overrides],
    )
    if paused or detach:
        _create_only(loaded, form, copy=copy, detach=detach)
    else:
        sys.exit(_run(loaded, form, sharing, copy=copy))


def _loaded(config: dict[str, Any], overrides: list[str]) -> LoadedExperiment:
    """Return the checked configuration, with secrets masked in its original text."""
    from dataclasses import replace

    from determined.config.dump import dump_yaml
    from determined.config.experiment import load_experiment
    from determined.config.reading.load import parse_yaml
    from determined.config.secrets.masking import mask_secrets

    loaded = load_experiment(config, overrides=overrides)
    for remark in loaded.warnings:
        click.echo(visible_lines(remark), err=True)
    # A secret among arguments is recognised by the argument before it, so the parsed data is masked, not the text.
    return replace(loaded, original=dump_yaml(mask_secrets(parse_yaml("", loaded.original))))


def _create_only(loaded: LoadedExperiment, form: Form, *, copy: bool, detach: bool) -> None:
    """Create the experiment, and queue it or leave it paused."""
    from determined.cli.running.run_or_queue import enqueue
    from determined.experiment.creation.create import create_experiment

    with opened_store() as store:
        number = create_experiment(
            loaded, Path.cwd(), store, paused=True, in_place=not copy, say=say_on_stderr
        ).experiment_id
        if form != "json":
            with continuing_without_output():
                click.echo(f"Created experiment {number}")
        if detach:
            enqueue(store, number, form)
        elif form == "json":
            print_json(experiment_plain(store.experiments.get(number)))
        else:
            click.echo(f"Paused. To run it: det experiment activate {number}")


def _run(loaded: LoadedExperiment, form: Form, sharing: Sharing, *, copy: bool) -> int:
    """Create the experiment and run it in the foreground; return the exit code."""
    from determined.config.stored import StoredConfig
    from determined.engines.local import LocalEngine
    from determined.experiment.creation.create import create_experiment

    with opened_store() as store, LocalEngine() as engine:
        if sharing == "fail":  # before anything is created, so that a refusal leaves nothing behind
            reserve_slots(engine, StoredConfig(loaded.config.plain()), None, sharing, say_on_stderr)
        created = create_experiment(loaded, Path.cwd(), store, engine=engine, in_place=not copy, say=say_on_stderr)
        click.echo(visible(f"Experiment {created.experiment_id}: {loaded.config.name}"), err=True)
        try:
            return run_program(created.experiment_id, engine, form, sharing)
        except KeyboardInterrupt:  # Ctrl-C before the runner handled signals
            from determined.queue.liveness import interrupted_message

            click.echo(interrupted_message(created.experiment_id), err=True)
            raise


def _shown(command: tuple[str, ...]) -> str:
    """Return a command line with secrets masked, shortened to the length of a name."""
    import shlex

    from determined.config.secrets.masking import mask_arguments

    words = shlex.join(mask_arguments(list(command)))
    return words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - 1]}…"


def run_program(experiment_id: int, engine: LocalEngine, form: Form, sharing: Sharing) -> int:
    """Run the program and return the exit code.

    Its output goes to the stream it was written to (with JSON, all of it to standard error); messages of `det` go to
    standard error.
    """
    from determined.config.stored import StoredConfig
    from determined.experiment.runner.run import run_experiment
    from determined.store.open import checked_place

    def on_line(trial_id: int, line: Line) -> None:
        # Standard output holds the JSON document only.
        stream = sys.stdout if line.stream == "stdout" and form != "json" else sys.stderr
        rank = f"[rank={line.rank}] " if line.rank else ""
        with continuing_without_output():
            # Colours are kept for pipes and files, from which click would remove them.
            click.echo(rank + log_line(line.text, stream), file=stream, color=True)

    with opened_store() as store:
        config = StoredConfig(store.experiments.get(experiment_id).config)
    with warnings_to(_say):
        reserve_slots(engine, config, experiment_id, sharing, _say)
        ended = run_experiment(checked_place(), experiment_id, engine=engine, on_line=on_line, say=_say)
    with opened_store() as store:
        summary = summarize(store, experiment_id)
    with continuing_without_output():
        if form == "json":
            print_json({**summary_plain(summary), "exit_code": _exit_code(ended)})
        for line in _closing_lines(summary):
            _say(line)
    return _exit_code(ended)


def _exit_code(ended: Ended) -> int:
    """Return 0 if the program completed, 128 + N if signal N paused it, the program's code if it failed, else 1."""
    if ended.state == "COMPLETED":
        return 0
    if ended.signal is not None:
        return 128 + ended.signal
    # A program that failed without a code of its own is a failure, too.
    return ended.code or 1 if ended.state == "ERROR" else 1


def _closing_lines(summary: Summary) -> list[str]:
    """Return the closing lines: the result, the checkpoint, and how to resume."""
    row = summary.experiment
    why = [trial.reason for trial in summary.trials if trial.reason and row.state != "COMPLETED"]
    reason = f" ({why[0]})" if why else ""
    best = "" if row.best is None else f", best {row.metric} {number(row.best)}"
    lines = [f"Experiment {row.id}: {row.state}{reason}{best}; see: det experiment describe {row.id}"]
    if row.state == "COMPLETED":  # a failed program has printed its reason
        lines += missing_results(summary)
    if summary.checkpoint is not None:
        lines.append(f"Checkpoint: {location_of(summary.checkpoint)}")
    if row.state == "PAUSED":
        lines.append(f"To resume: det experiment activate {row.id}")
    return lines


def _say(line: str) -> None:
    with continuing_without_output():
        click.echo(visible(line), err=True)
