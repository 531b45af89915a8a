"""Capture the interpreter and the environment variables of the user who queues an experiment.

Its trials run with them, because the daemon may have been started from another environment, or by the system after a
reboot.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping

from determined import paths
from determined.config.secrets.masking import mask_secrets
from determined.durable_files import write_atomically
from determined.engines.job_environment import without_run_variables
from determined.errors import InvalidExperimentException
from determined.experiment.files import ExperimentFiles

# Names of variables that are not stored. Broader than the masking elsewhere, to cover PGPASSWORD, OPENAI_APIKEY,
# TOKEN_2 and MYSQL_PWD: an omitted variable is taken from the daemon's environment, but a stored secret would leak.
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|PWD.|.PWD|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE)
# How Ray authenticates, and where its token is. Neither is a secret, and the daemon may know no cluster.
_NO_SECRETS = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")
_DEFINED_BY_DAEMON = (
    "CUDA_VISIBLE_DEVICES",
    "DET_SLOTS",
    "XDG_DATA_HOME",
    paths.DATA_DIR_VARIABLE,
)  # these define the daemon's slots and data directory, so its own values apply


def save_environment(files: ExperimentFiles, environment: Mapping[str, str]) -> None:
    """Store the interpreter and the environment without secrets, in a file that only the owner can read."""
    # Run variables would make the daemon's runner look like a trial of the run in which the user queued it.
    kept = {
        name: value for name, value in without_run_variables(environment).items() if not _comes_from_daemon(name, value)
    }
    # The interpreter too: the daemon may run in another virtual environment, and even after a power failure.
    write_atomically(files.captured_environment, json.dumps({"python": sys.executable, "environment": kept}))


def load_environment(files: ExperimentFiles, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the interpreter and the environment for a runner. Variables that were not stored come from the daemon."""
    own = without_run_variables(environment)
    try:
        kept = json.loads(files.captured_environment.read_text())
        python, variables = str(kept["python"]), {str(name): str(text) for name, text in kept["environment"].items()}
    except FileNotFoundError:
        # Queued by a version that did not store it.
        return sys.executable, own
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidExperimentException(
            f"{files.captured_environment} is damaged: {error}; activate the experiment again"
        ) from error
    # Only those that are never stored: other variables of the daemon must not leak into the runner.
    secrets = {name: value for name, value in own.items() if _comes_from_daemon(name, value)}
    # The interpreter may have been deleted since.
    return python if os.access(python, os.X_OK) else sys.executable, {**variables, **secrets}


def _comes_from_daemon(name: str, value: str) -> bool:
    """Return whether a variable is not stored but taken from the daemon: a secret, or one that defines its slots."""
    if name in _NO_SECRETS:
        return False
    return name in _DEFINED_BY_DAEMON or bool(_SECRET.search(name)) or mask_secrets(value, name) != value
