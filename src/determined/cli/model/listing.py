"""The command `det model list`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command, explain_unused
from determined.cli.display.output import ColumnChoice, Form, Page, show_list, with_columns, with_csv, with_paging
from determined.cli.display.times import with_utc
from determined.cli.model.rows import MODEL, model_plain
from determined.cli.store_access import opened_store

if TYPE_CHECKING:
    from determined.store.substores.registry import Model

_ORDERS: dict[str, Callable[[Model], Any]] = {
    "name": lambda model: model.name,
    "description": lambda model: model.description,
    "creation_time": lambda model: model.created,
    "last_updated_time": lambda model: model.updated,
}


@click.command("list", cls=Command, action="list the models")
@click.option("--sort-by", type=click.Choice([*_ORDERS]), default="last_updated_time", show_default=True)
@click.option("--order-by", type=click.Choice(["asc", "desc"]), default="asc", show_default=True)
@click.option("-w", "--workspace-names", metavar="NAMES", help="Accepted for old command lines: no workspaces.")
@with_paging
@with_utc
@with_csv
@with_columns
def list(
    sort_by: str, order_by: str, workspace_names: str | None, page: Page, form: Form, columns: ColumnChoice
) -> None:
    """List models.

    \b
    Example: det model list --sort-by name
    """
    explain_unused("-w/--workspace-names", workspace_names, "there are no workspaces; every model is listed")
    with opened_store() as store:
        models = store.registry.models()
    found = page.of(sorted(models, key=_ORDERS[sort_by], reverse=order_by == "desc"))
    show_list(form, MODEL, found, lambda: [model_plain(model) for model in found], columns)
