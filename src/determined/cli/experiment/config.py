"""The command `det experiment config`."""

from __future__ import annotations

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible_lines
from determined.cli.selection.arguments import ID, complete_experiments
from determined.cli.store_access import opened_store


@click.command(cls=Command, action="show the configuration of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@with_json
def config(experiment_id: int, form: Form) -> None:
    """Show the configuration of an experiment.

    Defaults are filled in and secrets are hidden. The output is YAML that `det experiment create` accepts.

    \b
    Example: det experiment config 3 > config.yaml
    """
    from determined.config.secrets.masking import mask_secrets

    with opened_store() as store:
        settings = mask_secrets(store.experiments.get(experiment_id).config)
    if form == "json":
        print_json(settings)
        return
    from determined.config.dump import dump_yaml

    click.echo(visible_lines(dump_yaml(settings).rstrip("\n")))
