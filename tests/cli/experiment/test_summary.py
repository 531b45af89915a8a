"""The summary below an experiment that has ended."""

from __future__ import annotations

import pytest

from determined.cli.running.text_view import summarize, summary_lines, summary_plain
from determined.store.store import Store
from tests.cli.det_command import det
from tests.cli.filling import add_trials, end, end_trial, lead, new_experiment


def test_the_best_trial_its_checkpoint_and_what_to_type(store: Store, search: int) -> None:
    summary = summarize(store, search)
    trial = store.experiments.trials(search)[0]
    lines = summary_lines(summary, 84.0)
    assert lines[0].startswith(f"Experiment {search} (search): COMPLETED, 3 trials in 1m 24s (")
    assert "1 STOPPED_EARLY" in lines[0]
    text = "\n".join(lines)
    assert f"Best trial: {trial.id}, loss 0.25 (COMPLETED)\n  lr          0.1\n  net.layers  3\n" in text
    assert f"/checkpoints/checkpoint-{trial.id}-16" in text
    assert "Failed:\n  trial 3: exit code 1: no such file" in text
    assert f"det experiment logs {search} --trial 3 --tail 30" in text
    assert f"det experiment list-checkpoints {search} --best 3" in text

    plain = summary_plain(summary)
    assert plain["best_trial"]["id"] == trial.id
    assert plain["best_checkpoint"]["uuid"] == f"checkpoint-{trial.id}-16"
    assert plain["trial_states"] == {"COMPLETED": 1, "STOPPED_EARLY": 1, "ERROR": 1}


def test_the_checkpoint_named_is_one_that_exists(store: Store, search: int) -> None:
    best = summarize(store, search).checkpoint
    assert best is not None
    store.set_checkpoint_deleted(best.checkpoint_id)
    other = summarize(store, search).checkpoint
    assert other is not None
    assert other.steps_completed == 4


def test_nothing_came_of_it(store: Store) -> None:
    experiment_id = new_experiment(store)
    lease = lead(store, experiment_id)
    trials = add_trials(store, lease, [{}] * 7)
    for trial_id in trials:
        end_trial(store, lease, trial_id, "ERROR", reason=f"ValueError: {trial_id}")
    end(store, lease, "ERROR", reason="all trials failed")
    lines = summary_lines(summarize(store, experiment_id), None)
    assert lines[1] == "  all trials failed"
    assert "  and 2 more" in lines
    assert not any(line.startswith("Best") for line in lines)
    assert summary_plain(summarize(store, experiment_id))["best_trial"] is None
    assert (
        lines[-1] == f"  det experiment continue {experiment_id}    # run it again, with the same code"
    )  # a random search


@pytest.mark.parametrize(
    ("searcher", "experiment_reason", "trial_reason", "last"),
    [
        ("random", "", "OSError: no space left (train.py, line 3); tried 6 times", "det experiment continue 1"),
        ("random", "", "ended by the signal SIGKILL", "det experiment continue 1"),
        ("random", "", "exit code 3", "det experiment continue 1"),
        ("random", "", "RuntimeError: CUDA out of memory (train.py, line 3)", "det experiment continue 1"),
        ("adaptive_asha", "", "exit code 3", "det experiment fork 1"),
        (
            "random",
            "",
            "ValueError: bad; data (train.py, line 3); not retried: same error twice",
            "det experiment create CONFIG MODEL_DIR",
        ),
        ("random", "", "KeyError: 'lr' (train.py, line 3); tried 6 times", "det experiment create CONFIG MODEL_DIR"),
        (
            "adaptive_asha",
            "the first 3 trials failed with the same error: KeyError: 'lr' (train.py, line 3)",
            None,
            "det experiment create CONFIG MODEL_DIR",
        ),
        (
            "single",
            "Metric 'val_loss' is not reported; reported: mse, mae",
            "Metric 'val_loss' is not reported; reported: mse, mae",
            "det experiment fork 1 --config searcher.metric=mse",
        ),
        (
            "single",
            "Metric 'val_loss' is not reported; reported: a b",
            None,
            "det experiment fork 1 --config searcher.metric=NAME",
        ),
        (
            "adaptive_asha",
            "No trial has reported the searcher metric 'loss' as a number.",
            None,
            "det experiment fork 1 --config searcher.metric=NAME",
        ),
        ("random", "", "INVALID_HP", "det experiment fork 1 --config hyperparameters.NAME=VALUE"),
    ],
)
def test_the_last_line_after_a_failure_is_a_command_that_helps(
    store: Store, searcher: str, experiment_reason: str, trial_reason: str | None, last: str
) -> None:
    experiment_id = new_experiment(store, config={"searcher": {"name": searcher, "metric": "loss"}})
    lease = lead(store, experiment_id)
    for trial_id in add_trials(store, lease, [{}] * 2):
        state = "INVALID_HP" if trial_reason == "INVALID_HP" else "ERROR"
        end_trial(store, lease, trial_id, state, reason=trial_reason or "exit code 1")  # type: ignore[arg-type]
    end(store, lease, "ERROR", reason=experiment_reason)
    lines = summary_lines(summarize(store, experiment_id), None)
    assert "Failed:" in lines
    assert lines[-1].partition("    # ")[0].strip() == last
    refused = det("e", "activate", str(experiment_id))
    assert refused.exit_code == 1
    assert refused.stderr.rstrip().endswith(last)


def test_trials_that_did_nothing_are_no_quiet_success(store: Store) -> None:
    experiment_id = new_experiment(store)
    lease = lead(store, experiment_id)
    (trial_id,) = add_trials(store, lease, [{}])
    assert "No trial reported" not in "\n".join(summary_lines(summarize(store, experiment_id), None)), "it only waits"
    end_trial(store, lease, trial_id, "COMPLETED")
    end(store, lease, "COMPLETED")
    summary = summarize(store, experiment_id)
    lines = summary_lines(summary, 2.0)
    assert "  No trial reported a metric or saved a checkpoint: did the program train?" in lines
    assert f"  det experiment logs {experiment_id} --trial {trial_id}" in lines
    assert summary_plain(summary)["has_results"] is False


def test_a_deleted_checkpoint_is_a_result(store: Store, search: int) -> None:
    assert summarize(store, search).has_results
    assert summary_plain(summarize(store, search))["has_results"] is True


def test_a_paused_one_says_how_to_continue(store: Store) -> None:
    experiment_id = new_experiment(store, paused=True)
    assert any(
        f"det experiment activate {experiment_id}" in line
        for line in summary_lines(summarize(store, experiment_id), 1.0)
    )
