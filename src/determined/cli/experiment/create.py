"""The command `det experiment create`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.command import Command, explain_unused
from determined.cli.experiment.new.overrides import with_overrides
from determined.cli.experiment.new.start import (
    Code,
    StartOptions,
    say_on_terminal,
    start_experiment,
    with_start_options,
)


@click.command(cls=Command, action="create the experiment")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.argument("model_dir", metavar="[MODEL_DIR]", type=click.Path(path_type=Path), default=".")
@click.option(
    "-i",
    "--include",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Additional file or directory to copy (repeatable).",
)
@with_overrides
@with_start_options
@click.option("--local", is_flag=True, help="Accepted for old command lines: experiments always run on this machine.")
@click.option("--template", metavar="NAME", help="Accepted for old command lines: there are no templates.")
@click.option("--project_id", metavar="N", help="Accepted for old command lines: name a project in the configuration.")
@click.option("-p", "--publish", metavar="PORTS", help="Accepted for old command lines: ports are visible as they are.")
def create(
    config_file: Path,
    model_dir: Path,
    include: tuple[Path, ...],
    overrides: tuple[str, ...],
    options: StartOptions,
    local: bool,
    template: str | None,
    project_id: str | None,
    publish: str | None,
) -> None:
    """Create an experiment and run it.

    MODEL_DIR (default: the current directory) is copied, so later changes to it do not affect the experiment. The exit
    code is 0 if the experiment completes. Ctrl-C pauses it, a second one stops it without saving.

    \b
    Example: det experiment create config.yaml . --config searcher.max_trials=16
    """
    explain_unused("--template", template, "there are no templates; merge the files, or use --config")
    explain_unused("--project_id", project_id, "give the names of workspace and project in the configuration")
    explain_unused("-p/--publish", publish, "trials run on this machine, their ports are visible as they are")
    say_on_terminal(f"Checking {config_file} …")  # before the imports, which take noticeable time
    from determined.config.experiment import load_experiment

    start_experiment(load_experiment(config_file, overrides=overrides), Code(model_dir, include), options)
