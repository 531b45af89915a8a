"""Writes what this process can read about itself to a file, for a test."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import determined as det


def write_down() -> None:
    info = det.get_cluster_info()
    assert info is not None
    rank = os.environ.get("RANK", "0")
    shown = {
        **asdict(info),
        **{name: getattr(info, name) for name in ("latest_checkpoint", "user_data", "container_addrs", "gpu_uuids")},
        **{name: getattr(info, name) for name in ("container_slot_counts", "container_rank")},
        "environment": dict(os.environ),
        "argv": sys.argv,
        "rank": rank,
    }
    Path(f"told-{rank}.json").write_text(json.dumps(shown))
