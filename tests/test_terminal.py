"""The helper that emulates a terminal: if it were wrong, tests of wrapping and redrawing would prove nothing."""

from __future__ import annotations

import os
import signal

import pytest

from tests.helpers.terminal import CTRL_C, Terminal, python, screen


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"one\r\ntwo\r\n", ["one", "two", ""]),
        (b"0123456789abc", ["0123456789", "abc"]),
        (b"0123456789\rnew\x1b[K", ["new"]),  # a full line wraps only when another character follows
        (b"0123456789x", ["0123456789", "x"]),
        (b"first\r\nsecond\r\x1b[1A\x1b[2Kup", ["up", "second"]),
        (b"a\r\nb\r\nc\x1b[2A\r\x1b[J", [""]),
        (b"\x1b[31mred\x1b[0m\x1b[?25l", ["red"]),
        ("日本日本日本".encode(), ["日本日本日", "本"]),
        (b"12345\x1b[3G_", ["12_45"]),
    ],
)
def test_screen(written: bytes, shown: list[str]) -> None:
    assert screen(written, 10) == shown


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_program_knows_its_terminal(is_warm: bool) -> None:
    program = (
        "import os, sys\n"
        "print(os.isatty(0), os.get_terminal_size(2).columns, flush=True)\n"
        "input()\n"
        "print(os.get_terminal_size(1).columns, flush=True)\n"
        "import time\n"
        "while True: time.sleep(0.05)\n"  # not signal.pause(), which misses a signal that arrives just before it
    )
    before = os.environ.get("COLUMNS")
    with Terminal(python("-c", program), columns=140, is_warm=is_warm) as terminal:
        terminal.read_until(b"True 140")
        terminal.resize(80)
        terminal.write(b"\n")
        terminal.read_until(b"80")
        if is_warm:
            terminal.signal(signal.SIGINT)
        else:
            terminal.write(CTRL_C)
        assert b"KeyboardInterrupt" in terminal.read_to_the_end()
        assert terminal.wait() in (-signal.SIGINT, 128 + signal.SIGINT)
    assert os.environ.get("COLUMNS") == before
