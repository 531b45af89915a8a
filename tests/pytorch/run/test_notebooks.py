"""Training in the cells of a notebook: a real kernel, driven by nbclient."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import records
from tests.helpers.notebooks import Notebook, started

TRIAL = """
import os, signal, time
import torch
from determined import pytorch

class Trial(pytorch.PyTorchTrial):
    at_batch = {}  # batch to function: what a test wants to happen there
    saving = None  # a pipe to tell of checkpoints, which then take long

    def __init__(self, context):
        self.context = context
        self.trained = []
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))

    def data(self):
        x = torch.arange(32.0).reshape(16, 2) / 32
        return pytorch.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)

    def build_callbacks(self):
        return {"slow": Slow()}

    build_training_data_loader = build_validation_data_loader = data

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.at_batch.get(batch_idx, lambda: None)()
        self.trained.append(batch_idx)
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        return {"mse": torch.nn.functional.mse_loss(self.model(x), y)}

class Slow(pytorch.PyTorchCallback):
    def on_checkpoint_save_start(self, checkpoint):
        if Trial.saving is not None:
            tell(Trial.saving)
            time.sleep(60)

def tell(pipe):
    with open(pipe, "w") as file:  # the test waits for this
        file.write("here")

def wait_for_interrupt(pipe):
    # Hold up a batch until the signal has come; the library's own handler gets it.
    came, note = os.pipe()
    os.set_blocking(note, False)
    # Written by the C handler: one in Python would not run if the signal came just before `read` blocks.
    before = signal.set_wakeup_fd(note)
    tell(pipe)
    os.read(came, 1)
    signal.set_wakeup_fd(before)
"""
OPEN = "context = pytorch.init()\ntrial = Trial(context)\ntrainer = pytorch.Trainer(trial, context)"
FIT = "trainer.fit(max_length=pytorch.Epoch(2), checkpoint_policy='none')"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Start one kernel for all tests of the file: starting it and importing torch takes seconds."""
    with started(tmp_path_factory.mktemp("notebook")) as kernel:
        assert not kernel.run(TRIAL).error
        yield kernel


@pytest.fixture
def notebook(kernel: Notebook, data_home: Path) -> Iterator[Notebook]:
    """Return the kernel, with the data directory of this test and no run open."""
    kernel.data = data_home
    kernel.run(f"os.environ['XDG_DATA_HOME'] = {str(data_home)!r}\nTrial.at_batch.clear()\nTrial.saving = None")
    yield kernel
    kernel.run("context.close()")


@pytest.fixture
def pipes(tmp_path: Path) -> Callable[[str], Path]:
    def pipe(name: str) -> Path:
        os.mkfifo(tmp_path / name)
        return tmp_path / name

    return pipe


def test_cells_share_a_run(notebook: Notebook) -> None:
    assert not notebook.run(OPEN).error
    assert not notebook.run(FIT).error
    assert notebook.state_of_runs() == [(1, "completed")]  # before the kernel ends: it may be killed
    assert not notebook.run("context.close()").error
    assert "The run has ended: call fit() inside `with pytorch.init()`" in notebook.run(FIT).error
    assert notebook.state_of_runs() == [(1, "completed")]


def test_a_with_block_in_one_cell(notebook: Notebook) -> None:
    cell = notebook.run(
        "with pytorch.init() as context:\n    trainer = pytorch.Trainer(Trial(context), context)\n    " + FIT
    )
    assert not cell.error
    assert "The run has ended: call fit() inside `with pytorch.init()`" in notebook.run(FIT).error


def test_running_a_cell_again_starts_a_new_run_and_says_so(notebook: Notebook) -> None:
    notebook.run(OPEN)
    notebook.run(FIT)
    notebook.run("old = trainer")
    again = notebook.run(OPEN)
    assert "A new run starts; experiment 1 has ended." in again.text
    assert "create the trial and the Trainer with the new context" in notebook.run(FIT.replace("trainer", "old")).error
    assert not notebook.run(FIT).error
    assert notebook.state_of_runs() == [(1, "completed"), (2, "completed")]


def test_an_error_in_training_is_recorded_and_the_next_fit_counts(notebook: Notebook) -> None:
    notebook.run(OPEN)
    notebook.run("def fail():\n    raise ValueError('no data')\nTrial.at_batch[1] = fail")
    assert notebook.run(FIT).error == "ValueError: no data"
    assert notebook.state_of_runs() == [(1, "failed")]
    notebook.run("Trial.at_batch.clear()")
    assert not notebook.run(FIT).error
    assert notebook.run("context.close()").error == ""
    assert notebook.state_of_runs()[-1][1] == "completed"


@pytest.mark.parametrize("before", ["", "import asyncio\nawait asyncio.sleep(0)\n"], ids=["cell", "async-cell"])
def test_an_interrupt_saves_and_the_session_survives(
    notebook: Notebook, pipes: Callable[[str], Path], before: str
) -> None:
    training = pipes("training")
    notebook.run(OPEN)
    notebook.run(f"Trial.at_batch[2] = lambda: wait_for_interrupt({str(training)!r})\nmine = 42")

    def interrupt() -> None:
        training.read_text()
        notebook.interrupt()

    cell = notebook.run_and(before + FIT, interrupt)
    assert cell.error.startswith("KeyboardInterrupt: training was stopped by the signal SIGINT after 3 batches")
    assert "SystemExit" not in cell.text
    assert notebook.run("print(mine)").text == "42\n"
    assert notebook.state_of_runs() == [(1, "stopped")]
    assert [row.steps_completed for row in records.announced(notebook.data)] == [3]

    notebook.run("Trial.at_batch.clear()")
    assert not notebook.run(FIT).error
    assert notebook.run("print(trial.trained)").text == "[0, 1, 2, 3, 4, 5, 6, 7]\n"  # it finished the first length
    assert [row.steps_completed for row in records.announced(notebook.data)] == [3, 8]
    assert notebook.state_of_runs()[-1][1] == "completed"


def test_a_further_interrupt_stops_the_save(notebook: Notebook, pipes: Callable[[str], Path]) -> None:
    training, saving = pipes("training"), pipes("saving")
    notebook.run(OPEN)
    notebook.run(f"Trial.at_batch[2] = lambda: wait_for_interrupt({str(training)!r})\nTrial.saving = {str(saving)!r}")

    def interrupt_twice() -> None:
        for pipe in (training, saving):
            pipe.read_text()
            notebook.interrupt()

    cell = notebook.run_and(FIT, interrupt_twice)
    assert cell.error == "KeyboardInterrupt: "
    assert notebook.run("print('alive')").text == "alive\n"
    assert notebook.state_of_runs() == [(1, "stopped")]
    assert records.announced(notebook.data) == []


def test_progress_is_one_output_that_changes(notebook: Notebook) -> None:
    notebook.run(OPEN)
    cell = notebook.run(
        FIT.replace("'none'", "'all', reporting_period=pytorch.Batch(1)") + "\ntrainer.fit(max_length=pytorch.Epoch(3))"
    )
    first, second = cell.shown("text/plain")
    assert [line.partition(": ")[0] for line in first.splitlines()] == [
        "validation after epoch 2/2, batch 8/8",
        "checkpoint after epoch 2/2, batch 8/8",
    ]
    assert "validation after epoch" in second
    assert "batch" not in cell.text


def test_objects_of_the_sdk_are_tables(notebook: Notebook) -> None:
    notebook.run("context = pytorch.init(name='<b>bold</b>')\ntrainer = pytorch.Trainer(Trial(context), context)")
    notebook.run(FIT)
    cell = notebook.run("from determined.experimental import Determined\nDetermined().list_experiments()")
    (table,) = cell.shown("text/html")
    assert "<td>&lt;b&gt;bold&lt;/b&gt;</td>" in table


def test_a_time_limit_ends_the_cell(notebook: Notebook) -> None:
    notebook.run(OPEN)
    cell = notebook.run("trainer.fit(max_length=pytorch.Epoch(10**6), checkpoint_policy='none', time_limit=0.5)")
    assert cell.error.startswith("KeyboardInterrupt: training was stopped by its time limit after")
    assert notebook.state_of_runs() == [(1, "stopped")]


def test_runs_of_the_core_api(notebook: Notebook) -> None:
    opening = "from determined import core\nrun = core.init()"
    report = "run.train.report_validation_metrics(1, {'error': 0.5})"
    notebook.run(f"{opening}\n{report}\nold = run")
    assert "A new run starts; experiment 1 has ended." in notebook.run(opening).text
    assert "The run has ended" in notebook.run(report.replace("run", "old", 1)).error
    assert not notebook.run(f"{report}\nrun.close()").error
    assert notebook.state_of_runs() == [(1, "completed"), (2, "completed")]


def test_visual_studio_code_and_names_distinguish_programs(notebook: Notebook, tmp_path: Path) -> None:
    file = tmp_path / "mine.ipynb"
    file.write_text("{}")
    notebook.run(f"__vsc_ipynb_file__ = {str(file)!r}")
    continued = FIT.replace("Epoch(2)", "Epoch(3)").replace("max_length", "latest_checkpoint='latest', max_length")
    for fit in (FIT, continued):
        notebook.run(OPEN)
        assert not notebook.run(fit).error
    notebook.run("del __vsc_ipynb_file__\nos.environ['DET_RUN_NAME'] = 'named'\n" + OPEN)
    assert not notebook.run(continued + "\ndel os.environ['DET_RUN_NAME']").error
    with records.opened(notebook.data) as store:
        found = [(run.program, run.attempt.start_step) for run in store.runs()[::-1]]
    assert found[0] == (str(file), 8)  # the same notebook continued
    assert found[1][1] == 0  # the name is another one


def test_a_restart_of_the_kernel_while_it_trains_saves_first(notebook: Notebook, pipes: Callable[[str], Path]) -> None:
    """This is the last test: afterwards the kernel is another one."""
    training = pipes("training")
    notebook.run(OPEN)
    notebook.run(f"Trial.at_batch[2] = lambda: wait_for_interrupt({str(training)!r})")

    notebook.start(FIT)
    training.read_text()
    notebook.restart()
    assert notebook.state_of_runs() == [(1, "stopped")]
    assert [row.steps_completed for row in records.announced(notebook.data)] == [3]
    assert notebook.run("context").error.startswith("NameError")
