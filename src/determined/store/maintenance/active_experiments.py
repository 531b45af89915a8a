"""Lists the experiments that processes are running."""

from __future__ import annotations

from determined.store.databases.base import Database
from determined.store.process import Process, may_be_running


def running_experiments(database: Database) -> dict[int, Process]:
    """Return the experiments that are being run, by id, each with one of its processes.

    Processes on other hosts cannot be checked, so the stored state is trusted.
    """
    runners = database.execute(
        "SELECT experiment_id, host, pid, process_started FROM leases WHERE host IS NOT NULL ORDER BY 1"
    )
    runs = database.execute(
        "SELECT t.experiment_id, a.host, a.pid, a.process_started FROM attempts a JOIN trials t ON t.id = a.trial_id "
        # Only standalone runs have no state in their row; for a search the holder of its lease counts.
        "AND t.attempt = a.number WHERE a.state = 'running' AND t.state IS NULL ORDER BY 1"
    )
    # Runners later, so that they win: a runner is the process that a user has to stop.
    found = {experiment_id: Process(*process) for experiment_id, *process in [*runs, *runners]}
    return {id_: process for id_, process in sorted(found.items()) if may_be_running(process)}
