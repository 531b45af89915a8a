"""Run an experiment in this process, on reserved or shared slots, or add it to the queue."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json
from determined.cli.display.safe_text import visible
from determined.cli.logs import format_line
from determined.cli.running.text_view import summarize, summary_lines, summary_plain
from determined.cli.store_access import opened_store
from determined.cli.streams import continuing_without_output

if TYPE_CHECKING:
    from determined.config.engine import EngineChoice
    from determined.config.stored import StoredConfig
    from determined.engines.base import Line
    from determined.engines.granted import GrantedEngine
    from determined.engines.local import LocalEngine
    from determined.experiment.runner.view import Observer, View
    from determined.store.store import Store

Sharing = Literal["wait", "fail", "share"]


def with_sharing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --no-wait and --share to a command, as the argument `sharing`."""

    @click.option("--no-wait", is_flag=True, help="Fail if other experiments hold the slots, instead of waiting.")
    @click.option("--share", is_flag=True, help="Use slots that other experiments hold.")
    @wraps(command)
    def chosen(*args: Any, no_wait: bool, share: bool, **kwargs: Any) -> Any:
        if no_wait and share:
            raise click.UsageError("--no-wait and --share exclude each other")
        return command(*args, sharing="fail" if no_wait else "share" if share else "wait", **kwargs)

    return chosen


def with_engine(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --engine to a command, as the argument `engine`; None means what the configuration says."""

    @click.option(
        "--engine",
        metavar="ENGINE",
        envvar="DET_ENGINE",
        help="Where trials run: local, ray or ray:HOST:PORT (default: resources.engine, else local).",
    )
    @wraps(command)
    def chosen(*args: Any, engine: str | None, **kwargs: Any) -> Any:
        from determined.config.engine import VARIABLE, parse_engine

        parameter = click.get_current_context().get_parameter_source("engine")
        source = VARIABLE if parameter is click.core.ParameterSource.ENVIRONMENT else "--engine"
        return command(*args, engine=None if engine is None else parse_engine(engine, source), **kwargs)

    return chosen


def reserve_slots(
    engine: LocalEngine,
    config: StoredConfig,
    experiment_id: int | None,
    sharing: Sharing,
    say: Callable[[str], None],
) -> None:
    """Reserve as many slots as the experiment can use; the engine starts no trial before it has them.

    With "fail", EngineError is raised if they are not available now. `experiment_id` is None for an experiment that is
    not created yet.
    """
    from determined.engines.reservations import SlotHolder
    from determined.errors import EngineError
    from determined.queue.slot_demand import slot_demand_of
    from determined.store.databases.location import shown
    from determined.store.open import checked_place
    from determined.store.process import this_process

    if sharing == "share":
        return

    def say_waiting(missing: str) -> None:
        if sharing == "wait":
            say(f"Waiting for {missing}. --share does not wait; Ctrl-C pauses the experiment.")

    holder = SlotHolder(experiment_id, shown(checked_place()), this_process().pid)
    wanted = slot_demand_of(config, engine.slots).wants
    try:
        reservation = engine.reserve(wanted, holder, say_waiting)
    # A read-only or full state directory must not prevent an experiment from running.
    except OSError as error:
        say(f"WARNING: slots are not reserved, and other experiments may use them as well: {error}")
        return
    if sharing == "fail" and not engine.has_slots:
        raise EngineError(f"missing {reservation.missing(wanted)}; without --no-wait the experiment waits for them")


def enqueue(
    store: Store, experiment_id: int, form: Form, *, slots: int | None = None, max_trials: int | None = None
) -> None:
    """Queue an experiment; it runs in the background, independent of this terminal, when slots are free."""
    from determined.queue.daemon_start import SHUTTING_DOWN
    from determined.queue.submission import add
    from determined.store.open import checked_place

    daemon = add(store, checked_place(), experiment_id, slots=slots, max_trials=max_trials)
    if form == "json":
        print_json(experiment_plain(store.experiments.get(experiment_id)))
    if daemon == "shutting down":
        click.echo(f"Experiment {experiment_id} is in the queue, but {SHUTTING_DOWN}", err=True)
    elif form != "json":
        click.echo(f"Queued. Status: det queue. Logs: det experiment logs {experiment_id} -f")


def run_here(
    experiment_id: int,
    *,
    new: bool,
    follow: bool,
    form: Form,
    slots: int | None = None,
    engine: LocalEngine | GrantedEngine | EngineChoice | None = None,
    max_trials: int | None = None,
    in_queue: bool = False,
    sharing: Sharing = "wait",
) -> int:
    """Run an experiment and return the exit code: 0 if it completed, 128 + N if signal N ended it, else 1."""
    from determined.config.engine import EngineChoice, parse_engine
    from determined.config.stored import StoredConfig
    from determined.engines.granted import GrantedEngine
    from determined.engines.local import LocalEngine
    from determined.experiment.creation.masked_secrets import check_secrets
    from determined.experiment.creation.run_again import check_can_run
    from determined.experiment.runner.run import run_experiment
    from determined.store.open import checked_place

    last: View | None = None
    followed: int | None = None

    with ExitStack() as cleanup, _screen(new=new, on_stderr=form == "json") as (observe, say), warnings_to(say):

        def observer(view: View) -> None:
            nonlocal last
            last = view
            observe(view)

        def on_line(trial_id: int, line: Line) -> None:
            nonlocal followed
            # The first trial that prints is the one that is followed.
            followed = trial_id if followed is None else followed
            if trial_id == followed:
                say(format_line(line.text, line.rank, line.written))

        if not isinstance(engine, GrantedEngine):
            with opened_store() as store:
                experiment = store.experiments.get(experiment_id)
                trials = store.experiments.trials(experiment_id)
                check_can_run(experiment, max_trials, trials)  # before waiting for slots, which may take long
                check_secrets(store, experiment)
            config = StoredConfig(experiment.config)
            if engine is None:
                engine = parse_engine(config.resources.engine, "resources.engine")
            if isinstance(engine, EngineChoice) and engine.is_local:
                engine = cleanup.enter_context(LocalEngine(slots))
            # The slots of a cluster are shared by Ray.
            if isinstance(engine, LocalEngine):
                reserve_slots(engine, config, experiment_id, sharing, say)
        ended = run_experiment(
            checked_place(),
            experiment_id,
            slots=slots,
            engine=engine,
            max_trials=max_trials,
            in_queue=in_queue,
            observer=observer,
            on_line=on_line if follow else None,
            say=say,
        )
    with opened_store() as store:
        summary = summarize(store, experiment_id)
    with continuing_without_output(
        BrokenPipeError
    ):  # a full disk that loses the result is a failure, a closed pipe is not
        if form == "json":
            print_json(summary_plain(summary))
        else:
            click.echo("\n".join(["", *summary_lines(summary, None if last is None else last.seconds)]))
    if ended.state == "COMPLETED":
        return 0
    return 1 if ended.signal is None else 128 + ended.signal


@contextmanager
def _screen(*, new: bool, on_stderr: bool) -> Iterator[tuple[Observer, Callable[[str], None]]]:
    """Yield a function that shows a view and one that prints a line: a live view on a terminal, else plain lines."""
    stream = sys.stderr if on_stderr else sys.stdout
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console

        from determined.cli.running.live_view import LiveView

        with LiveView(Console(stderr=on_stderr, highlight=False)) as live:
            yield live, live.line
        return
    from determined.cli.running.text_view import LineView

    def write(line: str) -> None:
        with continuing_without_output():
            click.echo(line, err=on_stderr)

    yield LineView(write, new=new), write


@contextmanager
def warnings_to(say: Callable[[str], None]) -> Iterator[None]:
    """Print warnings of the library among the other lines, in place of standard error."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(visible(f"{record.levelname}: {record.getMessage()}"))

    logger = logging.getLogger("determined")
    # Replaced, not added: a line on standard error would destroy the live view.
    others, logger.handlers = logger.handlers, [Handler(logging.WARNING)]
    try:
        yield
    finally:
        logger.handlers = others
