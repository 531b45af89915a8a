"""A script that passes its own hyperparameters to `pytorch.init`, in one of several ways."""

from typing import Any

import determined as det
from determined import pytorch

info = det.get_cluster_info()
assert info is not None
assigned = info.trial.hparams
fixed = {"lr": 0.5, "net": {"depth": 3}, "name": "mine"}
ways: dict[str, dict[str, Any] | None] = {
    "fixed": fixed,
    "some": {"lr": 0.5},
    "scaled": {**assigned, "lr": 2 * assigned["lr"]},
    "same": dict(assigned),
    "none": None,
    "unrelated": {"batch": 4},
}
with pytorch.init(hparams=ways[assigned["how"]]) as context:
    used = context.get_hparams()
    assert context._core is not None
    context._core.train.report_validation_metrics(1, {"loss": used.get("lr", 0.0)})
