"""Query the nodes and placement groups of a Ray cluster in a child process, for commands that show or check it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

from determined.engines.ray.authentication import with_mode
from determined.errors import EngineError, MissingExtraError

_SECONDS = 60.0
_MOST_CHARACTERS = 500  # of its output in an error message


def survey(address: str | None, *, with_versions: bool = False) -> dict[str, Any]:
    """Return the nodes and placement groups of a cluster; raise EngineError with the reason if it does not answer.

    With versions, a task on each node reports those of Python, torch and this library.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError('the engine ray needs the package ray: pip install "determined-pytorch[ray]"')
    request = json.dumps({"address": address, "with_versions": with_versions})
    # Ray in this process would replace signal handlers and print to its output.
    command = [sys.executable, "-m", "determined.engines.ray.survey_process"]
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=_SECONDS, env=with_mode(os.environ)
        )
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"the Ray cluster {address or 'of this machine'} did not answer within {_SECONDS:g} s: check with `ray "
            "status` that its head runs, that RAY_AUTH_MODE and the token are those of the cluster, and that no "
            "firewall is between this machine and the head"
        ) from None
    # Ray prints to standard output as well, so that the answer is the last line.
    lines = done.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else {}
    except ValueError:
        answer = {}
    if "problem" in answer:
        raise EngineError(answer["problem"])
    if "nodes" not in answer:
        shown = (done.stderr or done.stdout).strip()[-_MOST_CHARACTERS:]
        raise EngineError(f"the Ray cluster could not be asked (exit code {done.returncode}): {shown}")
    assert isinstance(answer, dict)
    return answer
