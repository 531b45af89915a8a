"""Create the supervisor of a run, and write a description into the run's directory."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from determined import paths
from determined.config.secrets.masking import mask_arguments, mask_secrets
from determined.core.supervision.attempts import Member, RecordedRun
from determined.core.supervision.detached import Detached
from determined.core.supervision.managed import Managed
from determined.core.supervision.run_identity import run_identity
from determined.core.supervision.supervisor import Supervisor
from determined.store.open import checked_place
from determined.store.rows import NewRun
from determined.user_code.git_commit import git_commit
from determined.user_code.program import this_program

if TYPE_CHECKING:
    from determined.core.supervision.sink_feed import SinkFeed
    from determined.sinks.base import Sink

_LONGEST_COMMAND = 4000  # long enough for any useful command; a list of files in it can have megabytes


def supervise(
    run_dir: Path,
    member: Member,
    *,
    hparams: dict[str, Any] | None,
    passed_hparams: dict[str, Any] | None = None,
    config: dict[str, Any] | None,
    storage: str,
    managed: Managed | None = None,
    seed: int = 0,
    detached: Detached | None = None,
    sinks: Sequence[Sink] = (),
    name: str | None = None,
    labels: Sequence[str] = (),
    notes: str = "",
) -> Supervisor:
    """Return the supervisor that records a run, with secrets masked, in the store named by the environment."""
    program = this_program()
    if name is not None:
        # A name in the configuration takes precedence.
        config = {"name": name, **(config or {})}
    run = NewRun(
        program=program.label,
        run_dir=str(paths.recorded_run_dir(run_dir)),
        hparams=mask_secrets(hparams or {}),
        config=mask_secrets(config or {}),
        created=time.time(),
        seed=seed,
        passed_hparams=None if passed_hparams is None else mask_secrets(passed_hparams),
        external_experiment=None if detached is None else detached.external_experiment,
        external_trial=None if detached is None else detached.external_trial,
        identity=run_identity(program, name) if managed is None else None,
        labels=tuple(labels),
        notes=notes,
        command=_command() if managed is None else None,
        git_commit=git_commit(program.file.parent) if managed is None and program.file is not None else None,
    )
    if member.is_chief:
        _write_description(run, run_dir)
    recorded = RecordedRun(
        run,
        member,
        place=(None if detached is None else detached.store) or checked_place(),
        storage=mask_secrets(storage),
        managed=managed,
        named=name is not None,
    )
    return Supervisor(run_dir, recorded, sinking=_sinking(sinks, run))


def _command() -> str:
    """Return the command line of this process, quoted for a shell, with secrets masked and limited in length."""
    import shlex  # imported on use: trials of a search need neither of the two

    from determined.config.secrets.line_mask import line_mask

    # Not `sys.argv`, which lacks the interpreter's own options such as `-m`.
    interpreter, *arguments = sys.orig_argv or ["python"]
    masked = mask_arguments([os.path.basename(interpreter), *arguments])
    command = line_mask(os.environ)(shlex.join(masked))
    return command if len(command) <= _LONGEST_COMMAND else f"{command[:_LONGEST_COMMAND]}..."


def _sinking(sinks: Sequence[Sink], run: NewRun) -> SinkFeed | None:
    """Return the feed of the sinks, or None without sinks: the module is imported only for runs that have some."""
    if not sinks:
        return None
    from determined.core.supervision.sink_feed import SinkFeed

    return SinkFeed(sinks, run)


def _write_description(run: NewRun, run_dir: Path) -> None:
    """Write run.json, a description of the run for users, into its directory."""
    description = {
        "started": run.created,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "directory": os.getcwd(),
        "argv": mask_arguments(sys.argv),
        "hparams": run.hparams,
        "config": run.config,
    }
    _replace_json(run_dir / "run.json", description)


def _replace_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object atomically, one key per line.

    Keys are encoded one by one because `indent` disables Python's fast encoder, and every trial does this once.
    """
    lines = [f"  {json.dumps(name)}: {json.dumps(inner, default=repr)}" for name, inner in value.items()]
    draft = path.with_name(f".{path.name}.new")
    # Creating the draft fails if one exists, for example of a process that was killed.
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    # Without a sync: the file informs users, and nothing of a run depends on it.
    os.replace(draft, path)
