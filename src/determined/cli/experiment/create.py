"""`det experiment create`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from determined.cli.experiment.trying import archive, one_batch_of
from determined.cli.foreground import run_here
from determined.cli.groups import Command, explain_unused
from determined.cli.holders import how_to_go_on
from determined.cli.opened import opened_store
from determined.cli.output import Form, print_json, with_json
from determined.cli.plain import experiment_plain
from determined.cli.render import some
from determined.cli.text import visible, visible_lines
from determined.cli.zone import with_utc

if TYPE_CHECKING:
    from determined.config.experiment import LoadedExperiment
    from determined.experiment.code_dir import CodeCopy


@click.command(cls=Command)
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.argument("model_dir", metavar="[MODEL_DIR]", type=click.Path(path_type=Path), default=".")
@click.option("-i", "--include", type=click.Path(path_type=Path), multiple=True, help="Also take this; repeatable.")
@click.option("--config", "overrides", metavar="KEY=VALUE", multiple=True, help="Change the configuration; repeatable.")
@click.option("--slots", type=click.IntRange(min=1), help="Use so many slots; without it all of this machine.")
@click.option("-f", "--follow", "--follow-first-trial", "follow", is_flag=True, help="Also show the first trial's log.")
@click.option("--paused", is_flag=True, help="Only create it; `activate` runs it later.")
@click.option("-t", "--test", "--test-mode", "test", is_flag=True, help="Run one batch of one trial, then archive it.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--local", is_flag=True, help="Accepted: experiments always run on this machine.")
@click.option("--template", metavar="NAME", help="Accepted for old command lines: there are no templates.")
@click.option("--project_id", metavar="N", help="Accepted for old command lines: name a project in the configuration.")
@click.option("-p", "--publish", metavar="PORTS", help="Accepted for old command lines: ports are visible as they are.")
@with_utc
@with_json
def create(
    config_file: Path,
    model_dir: Path,
    include: tuple[Path, ...],
    overrides: tuple[str, ...],
    slots: int | None,
    follow: bool,
    paused: bool,
    test: bool,
    dry_run: bool,
    local: bool,
    template: str | None,
    project_id: str | None,
    publish: str | None,
    form: Form,
) -> None:
    """Create an experiment and run it.

    MODEL_DIR, by default the current directory, is copied: changing it later does not disturb the experiment. The
    exit code is 0 when the experiment completes. Ctrl-C pauses it, a second one kills it.

    \b
    Example: det experiment create config.yaml . --config searcher.max_trials=16
    """
    if sum((follow, paused, test)) > 1:
        raise click.UsageError("--follow, --paused and --test exclude each other")
    explain_unused("--template", template, "there are no templates; merge the files, or use --config")
    explain_unused("--project_id", project_id, "give the names of workspace and project in the configuration")
    explain_unused("-p/--publish", publish, "trials run on this machine, their ports are visible as they are")
    from determined.config.experiment import load_experiment

    loaded = load_experiment(config_file, overrides=overrides)
    for remark in (*loaded.notes, *loaded.warnings):
        click.echo(visible_lines(remark), err=True)
    if test:
        loaded = load_experiment(one_batch_of(loaded.config.plain()))
    if dry_run:
        _show_plan(loaded, model_dir, include, slots, form)
    elif paused:
        _create_only(loaded, model_dir, include, slots, form)
    else:
        sys.exit(_create_and_run(loaded, model_dir, include, slots, form, follow=follow, test=test))


def _show_plan(
    loaded: LoadedExperiment, model_dir: Path, include: Sequence[Path], slots: int | None, form: Form
) -> None:
    from determined.cli.experiment.planning import plan_plain, plan_text
    from determined.experiment.plan import plan_experiment

    plan = plan_experiment(loaded.config, model_dir, include=include, slots=slots)
    if form == "json":
        print_json(plan_plain(loaded.config, plan))
    else:
        click.echo(visible_lines(plan_text(loaded.config, plan)))


def _create_only(
    loaded: LoadedExperiment, model_dir: Path, include: Sequence[Path], slots: int | None, form: Form
) -> None:
    from determined.experiment.create import create_experiment

    with opened_store() as store:
        created = create_experiment(loaded, model_dir, store, include=include, paused=True, slots=slots)
        row = store.experiments.get(created.experiment_id)
    if form == "json":
        print_json(experiment_plain(row))
        return
    click.echo(f"Created experiment {row.id}")
    _tell_what_is_missing(created.code)
    click.echo(f"It is paused; run it with: det experiment activate {row.id}")


def _create_and_run(
    loaded: LoadedExperiment,
    model_dir: Path,
    include: Sequence[Path],
    slots: int | None,
    form: Form,
    *,
    follow: bool,
    test: bool,
) -> int:
    from determined.engines.local import LocalEngine
    from determined.experiment.create import create_experiment

    with LocalEngine(slots) as engine:
        with opened_store() as store:
            created = create_experiment(loaded, model_dir, store, include=include, engine=engine)
        click.echo(f"Created experiment {created.experiment_id}", err=form == "json")
        _tell_what_is_missing(created.code)
        try:
            return run_here(created.experiment_id, new=True, engine=engine, follow=follow, form=form)
        except KeyboardInterrupt:  # before the runner listened to it
            click.echo(how_to_go_on(created.experiment_id), err=True)
            raise
        finally:
            if test:
                with opened_store() as store:
                    archive(store, created.experiment_id)
                click.echo("It was a test, and is archived: `det experiment list --all` shows it.", err=True)


def _tell_what_is_missing(code: CodeCopy) -> None:
    if code.left_out:
        click.echo(visible(f"Not copied from the model directory: {some(code.left_out)}"), err=True)
