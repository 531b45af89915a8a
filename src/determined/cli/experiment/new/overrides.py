"""The options that change settings of a configuration: `--config KEY=VALUE` and `--config-file`."""

from __future__ import annotations

from pathlib import Path

import click

with_overrides = click.option(
    "--config",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a setting of the configuration (repeatable).",
)
"""Add `--config` to a command, as the argument `overrides`."""

with_config_file = click.option(
    "--config-file", type=click.Path(path_type=Path), help="YAML file with changes to the configuration."
)
"""Add `--config-file` to a command that changes a stored configuration."""
