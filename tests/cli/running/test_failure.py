"""The text of an error: what could not be done, with which object, and why."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from determined.cli.command import Command, failure_text
from determined.cli.groups import LazyGroup
from determined.cli.main import main
from determined.errors import DeterminedError, InvalidExperimentConfig, Mistake, NotFoundException
from determined.store.store import Store
from tests.cli.det_command import det
from tests.cli.filling import Steps, add_trials, end, end_trial, lead, new_experiment, work


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"ids": 3}, "Cannot delete experiment 3: why"),
        ({"ids": [3]}, "Cannot delete experiment 3: why"),
        ({"ids": (3, 4)}, "Cannot delete experiments 3, 4: why"),
        ({"ids": []}, "Cannot delete experiments: why"),
    ],
)
def test_the_object_is_named(parameters: dict[str, object], text: str) -> None:
    assert failure_text("delete {ids:experiment}", parameters, DeterminedError("why")) == text


def test_names_are_quoted_and_cannot_command_a_terminal() -> None:
    text = failure_text("delete {name!r:model}", {"name": "a\x1b[2Jb"}, DeterminedError("x\x07y"))
    assert text.startswith("Cannot delete model 'a")
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_missing_object_is_the_complete_message() -> None:
    text = failure_text("show the logs of {trial_id:trial}", {"trial_id": 9999}, NotFoundException.of("trial", 9999))
    assert text == "Trial 9999 not found."


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("experiment 3 is PAUSED: cancel experiment 3", "it is PAUSED: cancel experiment 3"),
        ("the files of experiment 3 are not on this machine", "its files are not on this machine"),
        ("no checkpoint of experiment 3 has a number", "no checkpoint has a number"),
        ("experiment 3 cannot be downloaded: it is PARTIAL", "it is PARTIAL"),
        ("experiment 3: process 7 still runs it", "process 7 still runs it"),
        ("experiment 31 is PAUSED", "experiment 31 is PAUSED"),
        ("trial 3 is RUNNING", "trial 3 is RUNNING"),
        ("checkpoint X is what the trials of experiment 3 begin with",) * 2,
    ],
)
def test_a_reason_does_not_name_the_same_object_again(reason: str, shown: str) -> None:
    parameters = {"experiment_id": 3}
    text = failure_text("delete {experiment_id:experiment}", parameters, DeterminedError(reason))
    assert text == f"Cannot delete experiment 3: {shown}"
    several = failure_text("delete {ids:experiment}", {"ids": (3, 4)}, DeterminedError(reason))
    assert several == f"Cannot delete experiments 3, 4: {reason}"


def test_commands_name_their_object_once(store: Store) -> None:
    """Errors of every package: the store, the runner, the queue and the commands themselves."""
    ended, paused = new_experiment(store, "ended"), new_experiment(store, "paused", paused=True)
    lease = lead(store, ended)
    (trial,) = add_trials(store, lease, [{}])
    work(store, lease, trial, Steps(saved=[4]))
    end_trial(store, lease, trial, "COMPLETED")
    end(store, lease, "COMPLETED")
    running = new_experiment(store, "running")
    lead(store, running)
    uuid = f"checkpoint-{trial}-4"
    store.registry.register(store.registry.create_model("digits").id, uuid)
    for words, kind, number in (
        (["e", "activate"], "experiment", ended),
        (["e", "activate", "--detach"], "experiment", ended),
        (["e", "delete", "--yes"], "experiment", running),
        (["e", "continue"], "experiment", ended),
        (["e", "archive"], "experiment", paused),
        (["e", "delete", "--yes"], "experiment", paused),
        (["e", "delete", "--yes"], "experiment", ended),
        (["e", "pause"], "experiment", ended),
        (["e", "kill"], "experiment", ended),
        (["e", "fork"], "experiment", paused),
        (["e", "wait"], "experiment", paused),
        (["e", "logs", "--trial", "999"], "experiment", ended),
        (["e", "download"], "experiment", paused),
        (["e", "download-model-def"], "experiment", paused),
        (["e", "set", "priority", "--", "7"], "experiment", paused),
        (["queue", "remove"], "experiment", paused),
        (["t", "kill"], "trial", trial),
        (["t", "download", "--best"], "trial", trial),
        (["c", "delete", "--yes"], "checkpoint", uuid),
    ):
        split = words.index("--") if "--" in words else len(words)
        result = det(*words[:split], str(number), *words[split + 1 :])
        assert result.exit_code == 1, (words, result.output)
        line = result.stderr.splitlines()[-1]
        cannot, _, reason = line.partition(": ")
        assert cannot.startswith("Cannot "), line
        assert f"{kind} {number}" in cannot, line
        before_advice = reason.partition("det ")[0]
        assert f"{kind} {number}" not in before_advice, line


def test_files_that_cannot_be_read_are_named() -> None:
    error = FileNotFoundError(2, "No such file or directory", "x.yaml")
    assert (
        failure_text("preview the search", {}, error) == "Cannot preview the search: x.yaml: No such file or directory"
    )


def test_mistakes_stand_one_on_a_line_with_file_and_line() -> None:
    first = Mistake("searcher.metrc", 12, "unknown field", "did you mean metric?", "config.yaml")
    second = Mistake("name", None, "expected a text, got 3", file="--config")
    one = failure_text("create the experiment", {}, InvalidExperimentConfig([first]))
    assert one == "Cannot create the experiment: config.yaml:12: searcher.metrc: unknown field; did you mean metric?"
    both = failure_text("create the experiment", {}, InvalidExperimentConfig([first, second])).splitlines()
    assert both == [
        "Cannot create the experiment: 2 mistakes",
        "config.yaml:12: searcher.metrc: unknown field; did you mean metric?",
        "--config: name: expected a text, got 3",
    ]


def commands(group: click.Command, path: str = "det") -> list[tuple[str, click.Command]]:
    if not isinstance(group, LazyGroup):
        return [(path, group)]
    context = click.Context(group)
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [one for name, command in found if command is not None for one in commands(command, f"{path} {name}")]


def test_every_action_uses_parameters_that_its_command_has() -> None:
    for path, command in commands(main):
        assert isinstance(command, Command), path
        parameters = {one.name: 3 for one in command.params if one.name}
        text = failure_text(command.action, parameters, DeterminedError("why"))
        assert text.endswith(": why"), path
        assert "{" not in text, path


def test_an_error_of_a_command_is_one_line() -> None:
    @click.command(cls=Command, action="delete {experiment_id:experiment}")
    @click.argument("experiment_id")
    def delete(experiment_id: str) -> None:
        raise DeterminedError("in use")

    result = CliRunner().invoke(delete, ["7"])
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "Cannot delete experiment 7: in use\n")
