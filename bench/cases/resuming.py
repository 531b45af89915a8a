"""How much later than a fresh run a resumed run gets its first batch."""

from __future__ import annotations

from bench.measure import Effort, in_child
from bench.table import Row

BATCH_SIZE = 32
BATCHES = 6_250  # of a pass
RESUME_AT = 5_000
EPOCHS = (1, 90)
LIMIT = 2_000.0  # microseconds above a fresh start


def resuming(effort: Effort) -> list[Row]:
    """Shuffled map-style data: creating the loader, moving to the position, and loading the first batch."""
    case = f"resume at batch {RESUME_AT:,} of {BATCHES:,}"
    us = in_child("bench.cases.resuming:measure", {"rounds": effort.starts * 5})
    rows = [Row(case, "fresh start", us=us["fresh"], note="to the first batch")]
    for epoch in EPOCHS:
        more = us[str(epoch)] - us["fresh"]
        rows.append(
            Row(
                case,
                f"determined, epoch {epoch}",
                us=us[str(epoch)],
                must_be=f"<= {LIMIT / 1000:.0f} ms more",
                ok=more <= LIMIT,
                note=f"{more / 1000:+.2f} ms",
            )
        )
    return rows


def measure(*, rounds: int) -> dict[str, float]:
    """In a separate process: microseconds from the start to the first batch, in turns."""
    import statistics
    import time

    import torch

    from determined import pytorch
    from determined.pytorch.data.position import DataPosition
    from determined.pytorch.data.trial_loaders import TrainingData, checked

    torch.set_num_threads(1)
    records = torch.arange(BATCHES * BATCH_SIZE)

    def first_batch(context: pytorch.PyTorchTrialContext, batches: int) -> float:
        start = time.process_time()
        recipe = pytorch.DataLoader(torch.utils.data.TensorDataset(records), BATCH_SIZE, shuffle=True)
        loader = checked(recipe, "build_training_data_loader", context)
        data = TrainingData(loader, context, batches, DataPosition().moved(batches, BATCH_SIZE))
        (batch,) = next(data.begin())
        taken = time.process_time() - start
        assert len(batch) == BATCH_SIZE
        data.close()
        return taken

    positions = {"fresh": 0, **{str(epoch): (epoch - 1) * BATCHES + RESUME_AT for epoch in EPOCHS}}
    times: dict[str, list[float]] = {name: [] for name in positions}
    with pytorch.init() as context:
        for number in range(rounds + 1):
            for name, batches in positions.items():
                taken = first_batch(context, batches)
                if number:  # the first round warms up
                    times[name].append(taken)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}
