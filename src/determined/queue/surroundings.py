"""The interpreter and the variables of whoever put an experiment into the queue: its trials find them again.

The daemon may have been started by somebody else's command, or by the system after a reboot.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping

from determined import paths
from determined.config.masking import mask_secrets
from determined.engines.job_environment import outside_of_runs
from determined.errors import InvalidExperimentException
from determined.experiment.files import ExperimentFiles

# Wider than what is hidden elsewhere, as PGPASSWORD, OPENAI_APIKEY, TOKEN_2, MYSQL_PWD: one too many does little harm.
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|PWD.|.PWD|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE)
_OF_THE_DAEMON = (
    "CUDA_VISIBLE_DEVICES",
    "DET_SLOTS",
    "XDG_DATA_HOME",
    paths.DATA_DIR_VARIABLE,
)  # they say what its slots are, and where data lie


def keep_surroundings(files: ExperimentFiles, environment: Mapping[str, str]) -> None:
    """For the owner alone, and without secrets: these are not written to a disk that nobody asked to."""
    kept = {name: value for name, value in outside_of_runs(environment).items() if not _is_the_daemons(name, value)}
    draft = files.surroundings.with_suffix(".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump({"python": sys.executable, "environment": kept}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, files.surroundings)


def surroundings(files: ExperimentFiles, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The interpreter and the variables for a runner; what was not kept is as in the daemon's own environment."""
    own = outside_of_runs(environment)
    try:
        kept = json.loads(files.surroundings.read_text())
        python, variables = str(kept["python"]), {str(name): str(text) for name, text in kept["environment"].items()}
    except FileNotFoundError:
        return sys.executable, own
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidExperimentException(
            f"{files.surroundings} is damaged: {error}; activate the experiment again"
        ) from error
    secrets = {name: value for name, value in own.items() if _is_the_daemons(name, value)}
    return python if os.access(python, os.X_OK) else sys.executable, {**variables, **secrets}


def _is_the_daemons(name: str, value: str) -> bool:
    return name in _OF_THE_DAEMON or bool(_SECRET.search(name)) or mask_secrets(value, name) != value
