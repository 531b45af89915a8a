"""Every case by the name that `--only` takes, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable

from bench.cases import (
    checkpointing,
    cluster,
    cluster_faults,
    commanding,
    deciding,
    encoding,
    following,
    instructions,
    jobs,
    listing,
    loading,
    many_nodes,
    ranks,
    reading,
    resuming,
    searching,
    starting,
    storing,
    training,
    ui,
    validating,
)
from bench.measure import Effort
from bench.table import Row

CASES: dict[str, Callable[[Effort], list[Row]]] = {
    "mlp-instructions": instructions.mlp_instructions,
    "mlp-list": training.mlp_list,
    "mlp-loader": training.mlp_loader,
    "cnn": training.cnn,
    "two-ranks": ranks.two_ranks,
    "collectives": ranks.collectives,
    "validation": validating.validation,
    "loading": loading.loading,
    "sampler": loading.sampler,
    "resume": resuming.resuming,
    "checkpoint": checkpointing.checkpointing,
    "state": encoding.encoding,
    "store": storing.storing,
    "listing": listing.listing,
    "search": searching.searching,
    "searcher": deciding.deciding,
    "cluster": cluster.cluster,
    "cluster-faults": cluster_faults.cluster_faults,
    "many-nodes": many_nodes.many_nodes,
    "cli": commanding.commanding,
    "reading": reading.reading,
    "ui": ui.ui,
    "following": following.following,
    "start": jobs.starting,
    "import": starting.importing,
    "first-batch": starting.first_batch,
}
