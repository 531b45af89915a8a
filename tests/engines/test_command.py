"""How the forms of an entrypoint are read."""

from __future__ import annotations

import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.engines.command import Harness, Module, Program, Script, Shell, as_argv, parse_entrypoint
from determined.errors import InvalidConfigurationException


@pytest.mark.parametrize("text", ["model_def:MyTrial", "lib.trial:Outer.Inner", "  m:C\n"])
def test_a_trial_class(text: str) -> None:
    assert parse_entrypoint(text) == Harness(text.strip())


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("python3 train.py", ["train.py"]),
        ("python train.py --lr 0.1 x:y", ["train.py", "--lr", "0.1", "x:y"]),
        ("python3.12 -u src/train.py 'two words'", ["src/train.py", "two words"]),
        (f"{sys.executable} train.py", ["train.py"]),
    ],
)
def test_a_script(text: str, argv: list[str]) -> None:
    assert parse_entrypoint(text) == Script(tuple(argv))
    assert parse_entrypoint(shlex.split(text)) == Script(tuple(argv))


def test_a_module() -> None:
    text = "python3 -m determined.launch.torch_distributed -- python3 train.py"
    argv = ("determined.launch.torch_distributed", "--", "python3", "train.py")
    assert parse_entrypoint(text) == Module(argv)
    assert parse_entrypoint(["python", "-u", "-m", "a.b"]) == Module(("a.b",))


@pytest.mark.parametrize(
    "text",
    [
        "python3 train.py && echo done",
        "python3 train.py $HOME",
        "python3 train.py *.txt",
        "python3 -O train.py",
        "python3 -c pass",
        "python3",
        "python3 -m",
        "LR=1 python3 train.py",
        "/usr/bin/python3 train.py",
        "./run.sh",
        "make",
        "a:b:c",
        "model-def:Trial",
        "echo 'open",
    ],
)
def test_everything_else_is_for_the_shell(text: str) -> None:
    assert parse_entrypoint(text) == Shell(text)


def test_a_list_is_a_program_without_a_shell() -> None:
    assert parse_entrypoint(["echo", "$HOME", "*"]) == Program(("echo", "$HOME", "*"))
    assert parse_entrypoint(["m:C"]) == Program(("m:C",))


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [("MyTrial", "write module:MyTrial"), (" ", "empty"), ([], "list of strings"), (["a", 1], "list of strings")],
)
def test_what_means_nothing_is_refused(entrypoint: object, words: str) -> None:
    with pytest.raises(InvalidConfigurationException, match=words) as caught:
        parse_entrypoint(entrypoint)  # type: ignore[arg-type]
    assert str(caught.value).startswith("entrypoint: ")


@given(st.text(max_size=40))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        command = parse_entrypoint(text)
    except InvalidConfigurationException:
        return
    assert as_argv(command)
    if isinstance(command, Script | Module):  # then a shell would have started the same
        assert shlex.split(text)[-len(command.argv) :] == list(command.argv)


def test_the_same_for_a_separate_process() -> None:
    assert as_argv(Script(("t.py", "1"))) == [sys.executable, "t.py", "1"]
    assert as_argv(Module(("m", "1"))) == [sys.executable, "-m", "m", "1"]
    assert as_argv(Shell("a | b")) == ["sh", "-c", "a | b"]
    assert as_argv(Harness("m:C")) == [sys.executable, "-m", "determined.exec.harness", "m:C"]
