"""Results of batch inference: no upload is lost, repeated or mistaken for progress."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from determined import core
from determined.errors import CheckpointNotFound, InvalidCheckpointException, StoreError
from determined.experimental import Determined
from determined.pytorch.experimental import (
    TorchBatchProcessor,
    TorchBatchProcessorContext,
    initialize_default_inference_context,
    torch_batch_process,
)
from determined.pytorch.experimental.batches import Batches, Progress
from determined.store.output_records import Output
from tests.helpers.ranks import run_ranks
from tests.helpers.records import announced, metrics, opened


class Stop(Exception):
    """Ends a batch process in the middle, as a crash does."""


class Uploading(TorchBatchProcessor):
    """Uploads even batches at once and the others before progress is saved; a file for each."""

    stop_at: int | None = None

    def __init__(self, context: TorchBatchProcessorContext) -> None:
        self.context = context
        self.waiting: dict[str, list[int]] = {}

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        self.waiting[f"batch_{batch_idx}.json"] = batch.tolist()
        if batch_idx % 2 == 0:
            self.upload()
        if batch_idx == self.stop_at:
            raise Stop

    def on_checkpoint_start(self) -> None:
        self.upload()

    def upload(self) -> None:
        with self.context.upload_path() as path:
            for name, records in self.waiting.items():
                (path / name).write_text(json.dumps(records))
        self.waiting.clear()


def process(records: int, stop_at: int | None = None, processor: type[Uploading] = Uploading, **options: Any) -> None:
    """Run it to its end, or until it stops as in a crash."""
    chosen = type("Chosen", (processor,), {"stop_at": stop_at})
    with contextlib.suppress(Stop):
        torch_batch_process(chosen, list(range(records)), checkpoint_interval=2, **options)


def output_files(data_home: Path) -> dict[str, Any]:
    """Return path and content of the files in the storage; there is one output at most."""
    (directory,) = (data_home / "determined" / "checkpoints").glob("output-*")
    found = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): json.loads(path.read_text()) for path in sorted(found)}


def records_in(files: dict[str, Any]) -> list[int]:
    return sorted(record for records in files.values() for record in records)


def newest_progress(data_home: Path) -> str:
    return announced(data_home)[-1].checkpoint_id


def test_every_upload_stays_and_lies_where_0_38_had_it(data_home: Path, tmp_path: Path) -> None:
    process(9, batch_size=1)
    files = output_files(data_home)
    assert files == {f"rank_0/batch_{number}.json": [number] for number in range(9)}
    with Determined() as determined:
        (experiment,) = determined.list_experiments()
        (output,) = experiment.list_outputs()
        (trial,) = experiment.list_trials()
        assert (
            [each.uuid for each in trial.list_outputs()] == [output.uuid] == [determined.get_output(output.uuid).uuid]
        )
        assert sorted(output.resources) == sorted(files)
        assert output.uuid not in [checkpoint.uuid for checkpoint in trial.list_checkpoints()]
        assert {name: each.batches for each in output.uploads for name in each.files} == {
            "batch_0.json": 1,
            "batch_1.json": 2,
            "batch_2.json": 3,
            "batch_3.json": 4,
            "batch_4.json": 5,
            "batch_5.json": 6,
            "batch_6.json": 7,
            "batch_7.json": 8,
            "batch_8.json": 9,
        }
        assert {each.rank for each in output.uploads} == {0}
        target = Path(output.download(tmp_path / "fetched"))
        assert json.loads((target / "rank_0/batch_8.json").read_text()) == [8]
        with pytest.raises(FileExistsError, match="holds something else"):
            output.download(data_home / "determined" / "checkpoints")
        experiment.delete()
    assert not list((data_home / "determined" / "checkpoints").glob("*output*"))
    with opened() as store:
        assert store.experiments.list() == []


def test_a_download_is_brought_up_to_date(data_home: Path, tmp_path: Path) -> None:
    process(8, stop_at=5, batch_size=1)
    with Determined() as determined:
        (output,) = determined.list_experiments()[0].list_outputs()
        target = Path(output.download(tmp_path / "fetched"))
        assert not (target / "rank_0/batch_5.json").exists(), "it was not uploaded before the crash"
        (target / "mine.txt").write_text("a note")
        process(8, batch_size=1, latest_checkpoint=newest_progress(data_home))
        together = [threading.Thread(target=output.download, args=(target,)) for _ in range(3)]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
        assert {path.name for path in (target / "rank_0").iterdir()} == {f"batch_{n}.json" for n in range(8)}
        assert (target / "mine.txt").read_text() == "a note"
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".fetched")] == []


def test_after_a_crash_what_progress_does_not_cover_is_removed_and_done_again(data_home: Path) -> None:
    process(9, stop_at=6, batch_size=1)  # batch 6 is uploaded, progress is 6
    assert records_in(output_files(data_home)) == [0, 1, 2, 3, 4, 5, 6]
    with opened() as store:
        (run,) = store.runs()
        before = store.outputs.find(run.trial_id)
    seen: list[dict[str, Any]] = []

    class Looking(Uploading):
        def __init__(self, context: TorchBatchProcessorContext) -> None:
            super().__init__(context)
            seen.append(output_files(data_home))

    process(9, processor=Looking, batch_size=1, latest_checkpoint=newest_progress(data_home))
    assert records_in(seen[0]) == [0, 1, 2, 3, 4, 5], "before the processor is made"
    assert records_in(output_files(data_home)) == [*range(9)]
    with opened() as store:
        (run,) = store.runs()
        after = store.outputs.find(run.trial_id)
    assert before is not None
    assert after is not None
    assert after.uuid == before.uuid, "a trial has one output"
    assert run.attempt.number == 2


def test_a_replaced_file_comes_back_when_the_newer_one_is_not_covered(data_home: Path) -> None:
    class Replacing(Uploading):
        """Updates one file, as a program does that continues its own results."""

        def upload(self) -> None:
            with self.context.upload_path() as path:
                (path / "all.json").write_text(json.dumps([*range(self.context._batches_begun)]))

    process(9, stop_at=6, processor=Replacing, batch_size=1)
    hidden = list((data_home / "determined" / "checkpoints").glob(".replaced-*"))
    assert len(hidden) == 1
    assert output_files(data_home) == {"rank_0/all.json": [*range(7)]}
    uuid = newest_progress(data_home)
    seen: list[Any] = []

    class Looking(Replacing):
        def __init__(self, context: TorchBatchProcessorContext) -> None:
            super().__init__(context)
            seen.append(output_files(data_home))

    process(9, stop_at=7, processor=Looking, batch_size=1, latest_checkpoint=uuid)
    assert seen == [{"rank_0/all.json": [*range(6)]}], "as it was when progress was saved"
    process(9, processor=Looking, batch_size=1, latest_checkpoint=newest_progress(data_home))
    assert output_files(data_home) == {"rank_0/all.json": [*range(9)]}
    assert not list((data_home / "determined" / "checkpoints").glob(".replaced-*")), "nothing is kept that nobody needs"


def test_going_back_further_than_the_last_progress_loses_no_file(
    data_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Replacing(Uploading):
        def upload(self) -> None:
            with self.context.upload_path() as path:
                (path / "all.json").write_text(json.dumps([*range(self.context._batches_begun)]))
                (path / f"at_{self.context._batches_begun}.json").write_text("[]")

    process(8, processor=Replacing, batch_size=1)
    first = announced(data_home)[0].checkpoint_id
    seen: list[Any] = []

    class Looking(Replacing):
        def __init__(self, context: TorchBatchProcessorContext) -> None:
            super().__init__(context)
            seen.append(output_files(data_home))

    process(8, stop_at=2, processor=Looking, batch_size=1, latest_checkpoint=first)
    assert sorted(seen[0]) == ["rank_0/all.json", "rank_0/at_1.json", "rank_0/at_2.json"]
    assert seen[0]["rank_0/all.json"] == [*range(8)], "the one of then is gone, and none would be worse"
    assert "rank_0/all.json of output" in caplog.text
    with opened() as store:
        found = store.outputs.find(store.runs()[0].trial_id)
    assert found is not None
    assert found.resources["rank_0/all.json"] == len(json.dumps([*range(3)])), "the upload before it stopped again"


def test_an_error_inside_the_block_leaves_nothing(data_home: Path) -> None:
    class Failing(TorchBatchProcessor):
        def __init__(self, context: TorchBatchProcessorContext) -> None:
            self.context = context

        def process_batch(self, batch: Any, batch_idx: int) -> None:
            with self.context.upload_path() as path:
                (path / "half").write_text("...")
                raise Stop

    with pytest.raises(Stop):
        torch_batch_process(Failing, [0])
    assert [path.name for path in (data_home / "determined" / "checkpoints").iterdir() if "output" in path.name] == []
    assert not list((data_home / "determined" / "checkpoints").glob(".staging-*"))


class Killed(TorchBatchProcessor):
    """Uploads three files in each batch, and kills its process in the second one."""

    moment = ""

    def __init__(self, context: TorchBatchProcessorContext) -> None:
        self.context = context

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        with self.context.upload_path() as path:
            for name in "abc":
                (path / name).write_text(str(batch_idx))
            if batch_idx == 1 and self.moment == "inside":
                os.kill(os.getpid(), signal.SIGKILL)
            if batch_idx == 1 and self.moment == "moving":
                os.replace = self.die_after_one  # type: ignore[assignment]

    def die_after_one(self, source: Path, target: Path) -> None:
        os.rename(source, target)
        if "output-" in str(target):
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("moment", ["inside", "moving"])
def test_a_kill_during_an_upload_leaves_nothing_visible(
    data_home: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Killed, "moment", moment)
    child = os.fork()
    if child == 0:
        try:
            torch_batch_process(Killed, [0, 1, 2], checkpoint_interval=1)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with Determined() as determined:
        (output,) = determined.list_experiments()[0].list_outputs()
        assert [(each.batches, sorted(each.files)) for each in output.uploads] == [(1, ["a", "b", "c"])]
    if moment == "inside":
        assert set(output_files(data_home).values()) == {0}
    seen: list[Any] = []

    class Looking(TorchBatchProcessor):
        def __init__(self, context: TorchBatchProcessorContext) -> None:
            seen.append(output_files(data_home))

        def process_batch(self, batch: Any, batch_idx: int) -> None:
            pass

    torch_batch_process(Looking, [0, 1, 2], checkpoint_interval=1, latest_checkpoint=newest_progress(data_home))
    assert seen == [{"rank_0/a": 0, "rank_0/b": 0, "rank_0/c": 0}]
    assert [path.name for path in (data_home / "determined" / "checkpoints").glob(".staging-*")] == []


class Steady(Uploading):
    """Two files with each batch, of which one replaces an earlier one."""

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        with self.context.upload_path() as path:
            (path / f"batch_{batch_idx}.json").write_text(json.dumps(batch.tolist()))
            (path / f"newest_{batch_idx % 2}.json").write_text(json.dumps(batch_idx))


EVENTS = {"os.rename", "os.link", "os.mkdir", "os.rmdir", "os.remove", "shutil.rmtree", "open"}


def killed_at(event: int, checkpoint: str | None) -> bool:
    """Run a batch process in a child that is killed before one of its changes of files."""
    child = os.fork()
    if child == 0:
        left = event

        def hook(name: str, args: Any) -> None:
            nonlocal left
            if name in EVENTS:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            process(12, processor=Steady, batch_size=1, latest_checkpoint=checkpoint)
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.parametrize("seed", [8, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(100, 125))])
def test_killed_anywhere_again_and_again_the_results_are_those_of_an_undisturbed_run(
    data_home: Path, tmp_path: Path, seed: int
) -> None:
    randomness = random.Random(seed)
    kills = 0
    while killed_at(randomness.randrange(30, 190), newest_progress(data_home) if announced(data_home) else None):
        kills += 1
        assert kills < 200
        shutil.rmtree(tmp_path / "fetched", ignore_errors=True)
        for found in recorded_outputs():
            if not found.uploads:
                continue
            with Determined() as determined:
                rank = Path(determined.get_output(found.uuid).download(tmp_path / "fetched" / found.uuid), "rank_0")
            done = range(found.batches)
            assert {path.name: json.loads(path.read_text()) for path in rank.iterdir()} == {
                **{f"batch_{number}.json": [number] for number in done},
                **{f"newest_{number % 2}.json": number for number in done},
            }, "what is listed is whole, and of the batches that were uploaded"
    # An attempt that was killed before its first progress was a separate run: only the last one counts.
    complete = recorded_outputs()[-1]
    directory = data_home / "determined" / "checkpoints" / complete.uuid
    assert {path.name: json.loads(path.read_text()) for path in (directory / "rank_0").iterdir()} == {
        **{f"batch_{number}.json": [number] for number in range(12)},
        "newest_0.json": 10,
        "newest_1.json": 11,
    }
    assert sorted(complete.resources) == sorted(f"rank_0/{path.name}" for path in (directory / "rank_0").iterdir())
    assert [each.batches for each in complete.uploads] == [*range(1, 13)]
    assert not (data_home / "determined" / "checkpoints" / f".replaced-{complete.uuid}").exists()
    assert kills > 1


def recorded_outputs() -> list[Output]:
    with opened() as store:
        found = [store.outputs.find(run.trial_id) for run in store.runs()]
    return sorted([output for output in found if output is not None], key=lambda output: output.trial_id)


def test_an_output_is_never_taken_for_progress(data_home: Path) -> None:
    process(3, batch_size=1)
    (output,) = [path.name for path in (data_home / "determined" / "checkpoints").glob("output-*")]
    with pytest.raises(InvalidCheckpointException, match=f"{output} is the output of a trial, not a checkpoint"):
        torch_batch_process(Uploading, [0], latest_checkpoint=output)
    with core.init() as context:
        with pytest.raises(CheckpointNotFound, match="is the output of a trial"):
            with context.checkpoint.restore_path(output):
                pass
        with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
            (path / "weights").write_text("1")
    with pytest.raises(InvalidCheckpointException, match=f"checkpoint {uuid} holds no progress of a batch process"):
        torch_batch_process(Uploading, [0], latest_checkpoint=uuid)
    with opened() as store, pytest.raises(StoreError, match="is the output of a trial"):
        store.upkeep.checkpoint(output)


def test_a_run_that_continues_another_trial_says_where_the_first_results_are(
    data_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process(4, stop_at=2, batch_size=1)
    uuid = newest_progress(data_home)
    (output,) = [path.name for path in (data_home / "determined" / "checkpoints").glob("output-*")]
    with opened() as store:  # a trial of a search: no other process continues it
        store._database.execute("UPDATE trials SET state = 'COMPLETED'")
    process(4, batch_size=1, latest_checkpoint=uuid)
    assert f"whose uploads remain in output {output}" in caplog.text
    assert len(list((data_home / "determined" / "checkpoints").glob("output-*"))) == 2


def process_on_two_ranks(data_home: str, checkpoint: str, stop_at: int | None) -> list[str]:
    class Quiet(Uploading):
        """Rank 1 waits in the middle of an upload until rank 0 is in the middle of one as well."""

        def upload(self) -> None:
            if self.waiting and "batch_4.json" in self.waiting:
                with self.context.upload_path():
                    self.context.distributed.allgather(None)
            super().upload()

    process(19, stop_at, Quiet, batch_size=1, latest_checkpoint=checkpoint)
    return [path.name for path in Path(data_home, "determined", "checkpoints").glob("output-*")]


def test_results_are_exact_over_crashes_with_other_numbers_of_ranks(data_home: Path) -> None:
    process(19, stop_at=3, batch_size=1)  # progress: records 0 and 1
    arguments = [str(data_home), newest_progress(data_home), 6]
    both = run_ranks(process_on_two_ranks, n=2, args=arguments, timeout=100)
    assert len({name for rank in both for name in rank.value}) == 1, "one output for all ranks and attempts"
    files = output_files(data_home)
    # Two batches of each rank were saved before the crash at the fifth: 2 + 2 * 2 * 2 records.
    assert files["rank_0/batch_2.json"] == [2]
    assert files["rank_1/batch_2.json"] == [3]
    assert files["rank_0/batch_6.json"] == [10], "not covered, and still there"
    process(19, batch_size=1, latest_checkpoint=newest_progress(data_home))
    files = output_files(data_home)
    assert records_in(files) == [*range(19)]
    assert files["rank_0/batch_6.json"] == [10], "done again by the one rank"
    assert "rank_1/batch_6.json" not in files
    with opened() as store:
        found = store.outputs.find(store.runs()[0].trial_id)
    assert found is not None
    assert {upload.attempt for upload in found.uploads} == {1, 2, 3}
    assert found.batches == 6 + 9


def uneven_uploads() -> list[int]:
    seen: list[int] = []

    class Uneven(Uploading):
        def process_batch(self, batch: Any, batch_idx: int) -> None:
            seen.append(batch_idx)
            if self.context.get_distributed_rank() == 0:  # rank 1 never uploads anything
                super().process_batch(batch, batch_idx)
            self.context.report_metrics("mine", batch_idx + 1, {f"seen_by_{self.context.get_distributed_rank()}": 1})

    process(5, processor=Uneven, batch_size=1)
    return seen


def test_a_rank_that_never_uploads_and_shards_of_different_length(data_home: Path) -> None:
    first, second = (rank.value for rank in run_ranks(uneven_uploads, n=2, timeout=100))
    assert (first, second) == ([0, 1, 2], [0, 1])
    assert output_files(data_home) == {
        "rank_0/batch_0.json": [0],
        "rank_0/batch_1.json": [2],
        "rank_0/batch_2.json": [4],
    }
    reported = [(row["steps_completed"], name) for row in metrics(data_home, "mine") for name in row if "seen" in name]
    assert sorted(reported) == [
        (1, "seen_by_0"),
        (1, "seen_by_1"),
        (2, "seen_by_0"),
        (2, "seen_by_1"),
        (3, "seen_by_0"),
    ]


@settings(max_examples=60)
@given(data=st.data(), records=st.integers(0, 40))
def test_any_sequence_of_attempts_deals_every_record_once(data: st.DataObject, records: int) -> None:
    """Other ranks and batch sizes in each attempt, interrupted anywhere: covered results are complete and unique."""
    progress = Progress()
    covered: list[int] = []
    names: set[tuple[int, int]] = set()  # rank and number of the batch: together the name of a file
    for _ in range(20):
        ranks, size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
        batches = Batches(list(range(records)), size, None)
        total = progress.batches + batches.per_rank(progress, ranks)
        stop = data.draw(st.integers(progress.batches, total))
        for rank in range(ranks):
            own = enumerate(batches.loader(progress, ranks, rank), start=progress.batches)
            for number, batch in own:
                if number < stop:
                    covered += batch.tolist()
                    assert (rank, number) not in names, "a later attempt would replace the result of an earlier one"
                    names.add((rank, number))
        progress = batches.progress(progress, stop, ranks)
        assert sorted(covered) == [*range(progress.records)]
    batches = Batches(list(range(records)), 1, None)
    rest = [batch.item() for batch in batches.loader(progress, 1, 0)]
    assert sorted(covered) + rest == [*range(records)]


def test_progress_of_an_earlier_version_is_read(data_home: Path) -> None:
    with initialize_default_inference_context() as context:
        with context.checkpoint.store_path({"steps_completed": 2}) as (path, uuid):
            (path / "batch_process.json").write_text('{"batches_per_rank": 2, "ranks": 2}')
    process(6, batch_size=1, latest_checkpoint=uuid)
    assert output_files(data_home) == {"rank_0/batch_2.json": [4], "rank_0/batch_3.json": [5]}


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"batch_size": 2}, [[0, 1], [2, 3], [4]]),
        ({"batch_size": 2, "drop_last": True}, [[0, 1], [2, 3]]),
        ({"batch_size": 2, "shuffle": False, "sampler": None, "batch_sampler": None}, [[0, 1], [2, 3], [4]]),
        ({"batch_size": 2, "collate_fn": sum, "num_workers": 1, "persistent_workers": True}, [1, 5, 4]),
        ({"batch_size": None}, [0, 1, 2, 3, 4]),
        ({"pin_memory": False, "timeout": 0, "generator": torch.Generator(), "prefetch_factor": None}, [[0], [1], [2]]),
    ],
)
def test_options_of_the_loader(options: dict[str, Any], batches: list[Any]) -> None:
    seen: list[Any] = []

    class Seeing(TorchBatchProcessor):
        def __init__(self, context: TorchBatchProcessorContext) -> None:
            pass

        def process_batch(self, batch: Any, batch_idx: int) -> None:
            seen.append(batch.tolist() if isinstance(batch, torch.Tensor) else batch)

    torch_batch_process(Seeing, list(range(5)), dataloader_kwargs=options)
    assert seen[: len(batches)] == batches


def test_what_the_context_offers(data_home: Path) -> None:
    class Asking(TorchBatchProcessor):
        def __init__(self, context: TorchBatchProcessorContext) -> None:
            self.context = context
            self.total = context.wrap_reducer(sum, name="total")
            assert (context.get_distributed_rank(), context.get_distributed_size()) == (0, 1)
            assert context.get_hparams() == {}

        def process_batch(self, batch: Any, batch_idx: int) -> None:
            weight = torch.ones(1, requires_grad=True)
            (weight * batch).sum().backward()  # explanations of a model need gradients
            assert weight.grad is not None
            self.total.update(float(weight.grad))
            if batch_idx == 0:
                assert self.context.reduce_metrics(for_training=False) == {"total": 1.0}
                reducers = self.context._reducers.selected(for_training=False)
                assert self.context.run_cross_slot_reduction(reducers, [[[2, 3]], [[4]]]) == {"total": 9}
                self.context.reset_reducers()

    torch_batch_process(Asking, [1.0, 2.0, 3.0])
    assert metrics(data_home, "validation") == [{"steps_completed": 3, "total": 5.0}]
    assert metrics(data_home, "inference") == []
    torch_batch_process(Asking, [1.0, 2.0, 3.0], latest_checkpoint=newest_progress(data_home))
    assert metrics(data_home, "validation") == [{"steps_completed": 3, "total": 5.0}], "nothing new, nothing replaced"
