"""Batch inference with a file for each batch, and a crash in the middle of its first attempts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from determined import get_cluster_info
from determined.pytorch.experimental import TorchBatchProcessor, TorchBatchProcessorContext, torch_batch_process


class Processor(TorchBatchProcessor):
    def __init__(self, context: TorchBatchProcessorContext) -> None:
        self.context = context
        self.total = context.wrap_reducer(len, name="batches")

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        self.total.update(batch_idx)
        with self.context.upload_path() as path:
            (path / f"batch_{batch_idx}.json").write_text(json.dumps(batch.tolist()))
            (path / "newest.json").write_text(json.dumps(batch_idx))
        attempt = get_cluster_info().trial._trial_run_id  # type: ignore[union-attr]
        if batch_idx == self.context.get_hparams()["crash_at"][attempt - 1]:
            Path(f"seen-{attempt}.txt").write_text(str(os.getpid()))
            os._exit(3)


if __name__ == "__main__":
    torch_batch_process(Processor, list(range(9)), batch_size=1, checkpoint_interval=2)
