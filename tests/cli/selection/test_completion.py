"""The completion script of shells, and the answers of `det` to it."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.cli.det_command import DET, det, det_ok


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    script = det_ok("completion", shell)
    assert f"_DET_COMPLETE={shell}_complete" in script
    assert det("completion", "cmd").exit_code == 2


def test_commands_and_options_are_completed() -> None:
    """Called as bash does, with the variables of that script."""

    def completed(words: str) -> list[str]:
        asked = {
            **os.environ,
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
            "_DET_COMPLETE": "bash_complete",
        }
        program = DET[-1].replace("main()", "main(prog_name='det')")
        done = subprocess.run([*DET[:-1], program], env=asked, capture_output=True, text=True, timeout=60)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("det tri") == ["trial"]
    assert completed("det experiment list-") == ["list-trials", "list-checkpoints"]
    assert "--glob" in completed("det checkpoint rm --")
