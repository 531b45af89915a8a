"""Ask a trial's processes to end: through the store, or by force."""

from __future__ import annotations

import time

from determined.experiment.running import Running
from determined.experiment.trials import Ask, LiveTrial
from determined.store.experiment_records import TrialChange


def ask_to_end(run: Running, trial: LiveTrial, ask: Ask) -> None:
    """Once for each wish; a trial without processes has nobody to ask."""
    process = trial.process
    if process is None or process.asked in (ask, "kill"):
        return
    process.asked, process.asked_at = ask, time.monotonic()
    trial.state = "STOPPING"
    run.commit(trials=(TrialChange(trial.id, state="STOPPING"),), requests=((trial.id, ask),))
    if ask == "kill":
        run.engine.kill(process.key)
    else:
        run.engine.ring(process.key)
