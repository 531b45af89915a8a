"""The command `det preview-search`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible_lines
from determined.cli.groups import Command
from determined.cli.selection.integers import Count


@click.command("preview-search", cls=Command, action="preview the search")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option(
    "--config",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a setting of the configuration (repeatable).",
)
@click.option("--slots", type=Count(min=1), help="Number of slots (default: all).")
@with_json
def preview_search(config_file: Path, overrides: tuple[str, ...], slots: int | None, form: Form) -> None:
    """Preview a search without starting it.

    Shows how many trials are trained for how long, if every rung promotes the same share.

    \b
    Example: det preview-search adaptive.yaml --config searcher.max_trials=100
    """
    from determined.cli.previewing import preview_of, preview_plain, preview_text
    from determined.config.dump import dump_yaml
    from determined.config.experiment import load_experiment

    loaded = load_experiment(config_file, overrides=overrides)
    config = loaded.config
    for note in loaded.notes:
        click.echo(visible_lines(note), err=True)
    preview = preview_of(config, slots)
    if form == "json":
        print_json(preview_plain(config, preview))
        return
    searcher = {"searcher": config.searcher.plain()}
    click.echo(visible_lines(f"{dump_yaml(searcher)}\n{preview_text(config, preview)}"))
