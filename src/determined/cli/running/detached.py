"""Put an experiment into the queue, and print how to follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json

if TYPE_CHECKING:
    from determined.store.store import Store


def leave_to_queue(
    store: Store, experiment_id: int, form: Form, *, slots: int | None = None, max_trials: int | None = None
) -> None:
    """Queue an experiment; it runs in the background, independent of this terminal, when slots are free."""
    from determined.queue.daemon import IS_LEAVING
    from determined.queue.submission import add
    from determined.store.open import checked_place

    daemon = add(store, checked_place(), experiment_id, slots=slots, max_trials=max_trials)
    if form == "json":
        print_json(experiment_plain(store.experiments.get(experiment_id)))
    if daemon == "leaving":
        click.echo(f"Experiment {experiment_id} is in the queue, but {IS_LEAVING}", err=True)
    elif form != "json":
        click.echo(f"Queued. Status: det queue. Logs: det experiment logs {experiment_id} -f")
