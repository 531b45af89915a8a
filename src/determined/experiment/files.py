"""The private files of an experiment: its code, its configuration with secrets, its trials' directories."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined import paths
from determined.durable_files import write_atomically
from determined.errors import InvalidExperimentException
from determined.names import NAME_RULE, named_entry, shown


def experiment_dir(key: str) -> Path | None:
    """Return the directory of an experiment's files; None if its key, which is untrusted data, is no valid name."""
    # One function checks all names that become paths, see `determined.names`.
    return named_entry(paths.experiments_dir(), key)


@dataclass(frozen=True)
class ExperimentFiles:
    """The directory of an experiment, readable by its owner only.

    The store has only the directory's name and the configuration without secrets.
    """

    root: Path

    @classmethod
    def for_key(cls, key: str) -> ExperimentFiles:
        """Return the directory of the experiment with this key, creating it if necessary.

        Raise if the key is invalid.
        """
        root = experiment_dir(key)
        if root is None:
            raise InvalidExperimentException(
                f"the key of this experiment, {shown(key)}, cannot name its directory: expected {NAME_RULE}; and the "
                "directory may not be a link"
            )
        paths.made_private(paths.experiments_dir())
        # Only the owner: the directory holds secrets and code.
        root.mkdir(mode=0o700, exist_ok=True)
        return cls(root)

    @property
    def code(self) -> Path:
        """Return the copy of the model directory."""
        return self.root / "code"

    @property
    def runner_log(self) -> Path:
        """The log of a runner in the background."""
        return self.root / "runner.log"

    @property
    def captured_environment(self) -> Path:
        """The environment captured when the experiment was added to the queue."""
        return self.root / "surroundings.json"

    def work_in(self, directory: Path) -> None:
        """Let all trials work in this directory instead of in copies of the code."""
        path = self.root / "directory"
        # As bytes: a path need not be valid UTF-8.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(os.fsencode(directory))

    @property
    def place(self) -> Path | None:
        """The directory in which all trials work, or None if each trial works in a copy of the code."""
        try:
            return Path(os.fsdecode((self.root / "directory").read_bytes()))
        except FileNotFoundError:
            return None

    def work_dir(self, trial_id: int) -> Path:
        """Return the working directory of a trial."""
        return self.root / "trials" / str(trial_id)

    def write_config(self, config: dict[str, Any], continuation: int | None = None) -> None:
        """Write the configuration with which the experiment was created, or continued at that journal entry."""
        path = self._config(continuation)
        # Durable, because a row that refers to the file is committed after it.
        write_atomically(path, json.dumps(config, indent=2))

    def read_config(self, continuation: int | None = None) -> dict[str, Any]:
        """Return the configuration with which the experiment was created or continued."""
        path = self._config(continuation)
        try:
            config = json.loads(path.read_text())
        except FileNotFoundError:
            raise InvalidExperimentException(f"its files are not on this machine: {path} does not exist") from None
        assert isinstance(config, dict)
        return config

    def configs(self) -> list[dict[str, Any]]:
        """Return every configuration of the experiment, with secrets, so that these can be masked elsewhere."""
        # Older ones as well, since a log may show a secret that was changed since.
        return [json.loads(path.read_text()) for path in sorted(self.root.glob("config*.json"))]

    def _config(self, continuation: int | None) -> Path:
        """Return the file of the first configuration, or of the one with which the experiment was continued."""
        return self.root / ("config.json" if continuation is None else f"config-{continuation}.json")
