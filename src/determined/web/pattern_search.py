"""Search texts for a regular expression in a child process, which can be killed.

Some expressions, such as `(a+)+b`, take exponential time. Python holds its global lock meanwhile: neither another
request nor Ctrl-C would be handled.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = """
import json, re, sys
pattern, texts = json.load(sys.stdin)
search = re.compile(pattern).search
json.dump([search(text) is not None for text in texts], sys.stdout)
"""


def matching(pattern: str, texts: Sequence[str], seconds: float) -> list[bool]:
    """Return which texts contain a match of a valid expression. Raises TimeoutError after `seconds`."""
    # -I and -S: nothing but the standard library is imported, which takes 10 ms.
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    request = json.dumps([pattern, list(texts)])  # not as arguments, which other users of the machine can see
    try:
        done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=seconds, check=True)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"the regular expression took more than {seconds:.0f} s") from error
    found: list[bool] = json.loads(done.stdout)
    return found
