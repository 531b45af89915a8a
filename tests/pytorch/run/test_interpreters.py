"""Training at a prompt: an interrupt ends `fit`, never the interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest

from tests.helpers import records

MODULE = """
import os
import torch
from determined import pytorch

class Trial(pytorch.PyTorchTrial):
    held = True

    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))

    def data(self):
        x = torch.arange(32.0).reshape(16, 2) / 32
        return pytorch.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)

    build_training_data_loader = build_validation_data_loader = data

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 2 and self.held:
            self.hold()
        loss = self.model(batch[0]).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def hold(self):
        import signal
        came, tell = os.pipe()
        os.set_blocking(tell, False)
        # Written by the C handler: one in Python would not run if the signal came just before `read` blocks.
        before = signal.set_wakeup_fd(tell)
        print("in batch", 2)
        os.read(came, 1)
        signal.set_wakeup_fd(before)
        Trial.held = False

    def evaluate_batch(self, batch):
        return {"mse": self.model(batch[0]).mean()}
"""


@pytest.mark.parametrize(
    ("command", "prompt"),
    [
        (["-q", "-i"], ">>> "),
        (["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"], r"In \[\d+\]: "),
    ],
    ids=["python", "ipython"],
)
def test_an_interrupt_at_a_prompt(tmp_path: Path, data_home: Path, command: list[str], prompt: str) -> None:
    (tmp_path / "model.py").write_text(MODULE)
    environment = {**os.environ, "DET_PROGRESS": "0", "PYTHON_COLORS": "0", "IPYTHONDIR": str(tmp_path / "ipython")}
    environment["HOME"] = str(tmp_path)  # for the history
    shell = pexpect.spawn(sys.executable, command, cwd=tmp_path, env=environment, encoding="utf-8", timeout=60)

    def say(line: str) -> str:
        shell.sendline(line)
        shell.expect(prompt)
        return str(shell.before)

    shell.expect(prompt)
    say("from model import Trial, pytorch; context = pytorch.init(name='prompt')")
    say("trainer = pytorch.Trainer(Trial(context), context); mine = 41")
    shell.sendline("trainer.fit(max_length=pytorch.Epoch(2), checkpoint_policy='none')")
    shell.expect("in batch 2")
    shell.sendintr()
    shell.expect("training was stopped by the signal SIGINT after 3 batches")
    shell.expect(prompt)
    assert "42" in say("print(mine + 1)")
    assert [row.steps_completed for row in records.announced(data_home)] == [3]
    assert "Error" not in say("trainer.fit(max_length=pytorch.Epoch(2), checkpoint_policy='none')")
    shell.sendline("exit()")
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.exitstatus == 0
    (run,) = records.runs(data_home)
    assert (run.attempt.state, records.announced(data_home)[-1].steps_completed) == ("completed", 8)


def test_a_script_without_with_is_closed_when_it_ends(tmp_path: Path, data_home: Path) -> None:
    from tests.helpers import warm

    program = (
        MODULE.replace("held = True", "held = False")
        + """
import sys
context = pytorch.init(name=sys.argv[1])
trainer = pytorch.Trainer(Trial(context), context)
trainer.fit(max_length=pytorch.Epoch(1), checkpoint_policy="none")
if sys.argv[1] == "error":
    raise ValueError("after training")
if sys.argv[1] == "exit":
    sys.exit(3)
"""
    )
    (tmp_path / "program.py").write_text(program)
    expected = {"well": (0, "completed"), "error": (1, "failed"), "exit": (3, "failed")}
    found = {}
    for name in expected:
        done = warm.run([sys.executable, tmp_path / "program.py", name], capture_output=True, text=True, cwd=tmp_path)
        found[name] = (done.returncode, records.runs(data_home)[-1].attempt.state)
    assert found == expected
