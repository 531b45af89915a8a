"""What `import determined.pytorch` loads: every program waits for it, so that nothing may come along by accident."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import gc, json, sys
import torch
before = set(sys.modules)
full = gc.get_stats()[2]["collections"]
import determined.pytorch
full = gc.get_stats()[2]["collections"] - full
from determined.tensorboard import events
own = [module for name, module in sys.modules.items() if name.split(".")[0] == "determined"]
made = {f"{c.__module__}.{c.__qualname__}" for module in own for c in vars(module).values()
        if isinstance(c, type) and "__dataclass_params__" in vars(c) and c.__module__.startswith("determined")}
print(json.dumps({
    "collections": [gc.isenabled(), full],
    "loaded": sorted(set(sys.modules) - before),
    "dataclasses": sorted(made),
    "tables": events._contribution_table.cache_info().currsize + events._crc_table.cache_info().currsize,
}))
"""
# Needed by some runs only, or not before a run begins.
LATER = {
    "determined.checkpoint_storage.cloud",
    "determined.checkpoint_storage.clouds",
    "determined.config.hyperparameters",
    "determined.config.load",
    "determined.experimental",
    "determined.store.experiment_records",
    "determined.store.sql_store",
    "getpass",
    "obstore",
    "pydantic",
    "sqlite3",
    "tensorboard",
    "yaml",
}
MOST_DATACLASSES = 24  # each takes about half a millisecond to make; a named tuple takes an eighth of that


def test_what_comes_along_with_the_library() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert not LATER & set(found["loaded"])
    assert len(found["dataclasses"]) <= MOST_DATACLASSES, found["dataclasses"]
    assert found["tables"] == 0
    assert found["collections"] == [True, 0], "the collector is paused during the import, and only then"
