"""Forwards metrics to Weights & Biases. A trial is a run with an id that we choose, so that it can be resumed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.validators import FilledText
from determined.optional import require
from determined.sinks.base import Begin, CheckpointReference, Known, Report, Sink, last_steps
from determined.store.states import EndState

# Stored in the summary of runs, so these names cannot change.
_STEP = "steps_completed"
_SENT = "determined/steps_completed/"  # + group: summary field with the last step that was sent
_NOT_IN_PROJECTS = re.compile(r"[/\\#?%:\s]+")
_LONGEST_NAME = 128  # the limit of the service for projects and runs
_SERVICE_PROCESS = "wandb-core"
# 143 as after SIGTERM.
_EXIT_CODES = {"completed": 0, "stopped": 143, "canceled": 143, "failed": 1}
# `_SECONDS_TO_FINISH` is shorter than the time that a run waits for its sinks at the end.
_SECONDS_TO_BEGIN, _SECONDS_TO_FINISH = 60.0, 8.0

# Send only what the run reports: no console output, no code, no data about the machine or the command line.
_NOTHING_ELSE = {
    "console": "off",
    "disable_git": True,
    "disable_code": True,
    "save_code": False,
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


Mode = Annotated[Literal["online", "offline"], validators.choice("online", "offline")]


class WandbSettings(Block):
    """Settings for Weights & Biases.

    Fields that are not set follow its variables, such as WANDB_PROJECT and WANDB_MODE.
    """

    project: FilledText | None = None
    entity: FilledText | None = None
    mode: Mode | None = None


class WandbSink(Sink):
    """A sink for Weights & Biases.

    Rows carry `steps_completed` as their x axis. The service's own step must not decrease, or rows are ignored, but our
    steps can, when a trial resumes from a checkpoint.
    """

    name = "wandb"
    Settings = WandbSettings

    def __init__(self, settings: WandbSettings) -> None:
        self._settings = settings
        self._run: Any = None

    def open(self, begin: Begin) -> Known:
        # Disable the client's own error reporting, which delays the exit of the program until it is sent.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        wandb = require("wandb", extra="wandb", purpose="the sink wandb")
        mode = self._settings.mode or wandb.setup().settings.mode
        # Without a prompt: the client would otherwise ask for a key on the terminal of the training.
        if mode == "online" and not wandb.login(prompt=False, verify=False):
            raise RuntimeError("not logged in to W&B: set WANDB_API_KEY, call `wandb login`, or choose mode offline")
        project = self._settings.project or os.environ.get("WANDB_PROJECT") or begin.experiment
        self._run = wandb.init(
            id=begin.key,
            resume="allow",
            reinit="create_new",  # the program may have its own run
            project=_NOT_IN_PROJECTS.sub("-", project)[:_LONGEST_NAME],
            entity=self._settings.entity,
            mode=self._settings.mode,
            name=begin.name[:_LONGEST_NAME],
            group=f"{begin.experiment[:100]}-{begin.experiment_id}",
            notes=begin.description or None,
            tags=[label[:64] for label in begin.labels],  # the service rejects longer tags
            config={**begin.hparams, "determined": begin.config},
            # A resumed run may have changed hyperparameters, which the client would otherwise refuse.
            allow_val_change=True,
            # In the directory of the run, because the client would otherwise write into the user's working directory.
            dir=os.environ.get("WANDB_DIR") or begin.directory,
            settings=_settings(wandb),
        )
        self._run.define_metric(_STEP, hidden=True)
        self._run.define_metric("*", step_metric=_STEP, step_sync=True)
        return _sent_before(dict(self._run.summary)) if self._run.resumed else {}

    def send(self, events: Sequence[Report | CheckpointReference]) -> None:
        for event in events:
            if isinstance(event, Report):
                self._run.log({**event.values(), _STEP: event.steps_completed})
            else:
                row = {"checkpoint/uuid": event.checkpoint_id, "checkpoint/storage": event.storage}
                self._run.log({**row, _STEP: event.steps_completed})
        # After the rows: a kill in between sends them once more, instead of losing them.
        self._run.summary.update({f"{_SENT}{group}": steps for group, steps in last_steps(events).items()})

    def end(self, state: EndState) -> None:
        self._run.summary["determined/state"] = state
        if state == "stopped":
            self._run.mark_preempting()
        self._run.finish(exit_code=_EXIT_CODES[state])

    def abandon(self) -> None:
        """Kill the client's service process, which would otherwise delay the exit. Its file can be synced later."""
        # Not imported yet: nothing was started.
        wandb = sys.modules.get("wandb")
        if wandb is None or wandb.run is not None:
            return  # the program's own run still needs the service process
        import psutil

        for child in psutil.Process().children():
            if child.name() == _SERVICE_PROCESS:
                child.kill()
        # Private: unregister the client's exit handler, which would report the missing process. The public teardown
        # function waits for the process and may call exit.
        forget = getattr(getattr(wandb.setup(), "_connection", None), "_cleanup", None)
        if callable(forget):
            forget()


def _settings(wandb: Any) -> Any:
    """Return the settings of a run."""
    wanted = {
        **_NOTHING_ELSE,
        "silent": True,
        "init_timeout": _SECONDS_TO_BEGIN,
        "finish_timeout": _SECONDS_TO_FINISH,
    }
    # Settings that begin with x_ are not stable, so those that this version does not know are left out.
    return wandb.Settings(**{name: value for name, value in wanted.items() if name in wandb.Settings.model_fields})


def _sent_before(summary: dict[str, Any]) -> Known:
    """Return the last step sent for each group of metrics, from the summary of a resumed run."""
    return {
        name.removeprefix(_SENT): int(value)
        for name, value in summary.items()
        if name.startswith(_SENT) and isinstance(value, (int, float))
    }
