"""Start a new experiment in the way its options say: plan it, create it only, queue it, or run it here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible, visible_lines
from determined.cli.display.times import with_utc
from determined.cli.experiment.new.test_mode import archive, one_batch_of
from determined.cli.running.run_or_queue import Sharing, enqueue, reserve_slots, run_here, with_engine, with_sharing
from determined.cli.store_access import opened_store
from determined.cli.streams import continuing_without_output
from determined.config.secrets.masking import mask_secrets
from determined.sentences import first_few

if TYPE_CHECKING:
    from determined.config.engine import EngineChoice
    from determined.config.experiment import LoadedExperiment
    from determined.experiment.code.directories import CodeCopy
    from determined.store.experiment_records import Experiment


@dataclass(frozen=True)
class StartOptions:
    """The options that say what happens with a new experiment."""

    slots: int | None
    follow: bool
    paused: bool
    detach: bool
    test: bool
    dry_run: bool
    startup_hook: bool
    sharing: Sharing
    engine: EngineChoice | None
    form: Form


@dataclass(frozen=True)
class Code:
    """The source of a new experiment's code: a model directory, or the experiment that it is forked from."""

    directory: Path
    include: Sequence[Path] = ()
    fork_of: Experiment | None = None
    in_place: bool = False  # its trials work in the directory itself, without a copy


def no_startup_hook(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --no-startup-hook to a command, as the argument `startup_hook`, which is False if it is given."""
    option = click.option(
        "--no-startup-hook",
        "startup_hook",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Do not run the startup-hook.sh of the model directory.",
    )
    return option(command)


def say_on_stderr(line: str) -> None:
    """Print a line on standard error, so that it does not mix with the result of the command."""
    click.echo(visible(line), err=True)


def say_on_terminal(line: str) -> None:
    """Print a line on standard error if it is a terminal, for a waiting user; scripts do not get it."""
    if sys.stderr.isatty():
        say_on_stderr(line)


def with_start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options shared by all commands that create experiments, as the argument `options`."""

    @click.option("--slots", type=click.IntRange(min=1), help="Number of slots to use (default: all).")
    @click.option(
        "-f", "--follow", "--follow-first-trial", "follow", is_flag=True, help="Also show the log of the first trial."
    )
    @click.option("--paused", is_flag=True, help="Only create the experiment; run it later with `activate`.")
    @click.option("--detach", is_flag=True, help="Queue it; it runs in the background when slots are free.")
    @click.option(
        "-t",
        "--test",
        "--test-mode",
        "test",
        is_flag=True,
        help="Run one batch of one trial, then archive the experiment.",
    )
    @click.option("--dry-run", is_flag=True, help="Only show what would be done.")
    @no_startup_hook
    @with_engine
    @with_sharing
    @with_utc
    @with_json
    @wraps(command)
    def with_options(
        *args: Any,
        slots: int | None,
        follow: bool,
        paused: bool,
        detach: bool,
        test: bool,
        dry_run: bool,
        startup_hook: bool,
        sharing: Sharing,
        engine: EngineChoice | None,
        form: Form,
        **kwargs: Any,
    ) -> Any:
        if sum((follow, paused, detach, test)) > 1:
            raise click.UsageError("--follow, --paused, --detach and --test exclude each other")
        chosen = StartOptions(slots, follow, paused, detach, test, dry_run, startup_hook, sharing, engine, form)
        return command(*args, options=chosen, **kwargs)

    return with_options


def start_experiment(loaded: LoadedExperiment, code: Code, options: StartOptions) -> None:
    """Start a new experiment. If it is run here, exit with its exit code."""
    for remark in (*loaded.notes, *loaded.warnings):
        click.echo(visible_lines(remark), err=True)
    if not options.startup_hook:
        # In the configuration, so that a later `activate` does not run it either.
        loaded = replace(loaded, config=loaded.config.model_copy(update={"startup_hook": False}))
    if options.engine is not None:
        # In the configuration, so that a later `activate` and the queue use the same engine.
        resources = loaded.config.resources.model_copy(update={"engine": str(options.engine)})
        loaded = replace(loaded, config=loaded.config.model_copy(update={"resources": resources}))
    if options.test:
        loaded = one_batch_of(loaded)
    if options.dry_run:
        _show_plan(loaded, code, options)
    elif options.paused or options.detach:
        _create_only(loaded, code, options)
    else:
        sys.exit(_create_and_run(loaded, code, options))


def _show_plan(loaded: LoadedExperiment, code: Code, options: StartOptions) -> None:
    """Print what the experiment would do, for `--dry-run`."""
    from determined.cli.experiment.new.dry_run import plan_plain, plan_text
    from determined.experiment.creation.plan import plan_experiment

    plan = plan_experiment(loaded.config, code.directory, include=code.include, slots=options.slots)
    if options.form == "json":
        print_json(plan_plain(loaded.config, plan))
    else:
        click.echo(visible_lines(plan_text(loaded.config, plan)))


def _create_only(loaded: LoadedExperiment, code: Code, options: StartOptions) -> None:
    """Create the experiment, and queue it or leave it paused."""
    _announce_check(loaded)
    from determined.experiment.creation.create import create_experiment

    with opened_store() as store:
        created = create_experiment(
            loaded,
            code.directory,
            store,
            include=code.include,
            # Paused until it is queued, which marks it as active.
            paused=True,
            slots=options.slots,
            fork_of=code.fork_of,
            in_place=code.in_place,
            say=say_on_stderr,
        )
        number = created.experiment_id
        if options.form != "json":
            # A closed pipe must not end the command before the experiment is queued.
            with continuing_without_output():
                click.echo(f"Created experiment {number}")
            _print_skipped_files(created.code)
        if options.detach:
            enqueue(store, number, options.form, slots=options.slots)
        elif options.form == "json":
            print_json(experiment_plain(store.experiments.get(number)))
        else:
            click.echo(f"Paused. To run it: det experiment activate {number}")


def _announce_check(loaded: LoadedExperiment) -> None:
    """Print the entrypoint, whose modules are imported next: importing torch alone takes seconds."""
    entrypoint = mask_secrets(loaded.config.entrypoint, "entrypoint")
    shown = entrypoint if isinstance(entrypoint, str) else " ".join(map(str, entrypoint or ()))
    say_on_terminal(f"Checking entrypoint {shown} …")


def _create_and_run(loaded: LoadedExperiment, code: Code, options: StartOptions) -> int:
    """Create the experiment and run it in the foreground; return its exit code."""
    _announce_check(loaded)
    from determined.config.engine import parse_engine
    from determined.config.stored import StoredConfig
    from determined.engines.local import LocalEngine
    from determined.engines.ray.package import check_package
    from determined.experiment.creation.create import create_experiment

    choice = parse_engine(loaded.config.resources.engine or "local", "resources.engine")
    with ExitStack() as opened:
        engine = opened.enter_context(LocalEngine(options.slots)) if choice.is_local else None
        # Before anything is created, so that a refusal leaves nothing behind.
        if engine is None:
            check_package()
        elif options.sharing == "fail":
            reserve_slots(engine, StoredConfig(loaded.config.plain()), None, options.sharing, say_on_stderr)
        with opened_store() as store:
            created = create_experiment(
                loaded,
                code.directory,
                store,
                include=code.include,
                engine=engine,
                fork_of=code.fork_of,
                in_place=code.in_place,
                say=say_on_stderr,
            )
        with continuing_without_output():
            click.echo(f"Created experiment {created.experiment_id}", err=options.form == "json")
        _print_skipped_files(created.code)
        try:
            return run_here(
                created.experiment_id,
                new=True,
                slots=options.slots,
                engine=choice if engine is None else engine,
                follow=options.follow,
                form=options.form,
                sharing=options.sharing,
            )
        except KeyboardInterrupt:  # Ctrl-C before the runner handled signals
            from determined.queue.liveness import interrupted_message

            click.echo(interrupted_message(created.experiment_id), err=True)
            raise
        # Also after an interrupt: a test experiment should not stay in lists.
        finally:
            if options.test:
                with opened_store() as store:
                    archive(store, created.experiment_id)
                click.echo("The test experiment was archived. To see it: det experiment list --all", err=True)


def _print_skipped_files(code: CodeCopy) -> None:
    """Print the files of the model directory that were not copied, if any."""
    if code.left_out:
        click.echo(visible(f"Not copied from the model directory: {first_few(code.left_out)}"), err=True)
