"""Weights & Biases: a trial is a run with an id of ours, resumed when the trial is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from determined.config.sinks import Wandb
from determined.optional import require
from determined.sinks.base import Begin, CheckpointReference, EndState, Known, Report, last_steps

_STEP = "steps_completed"
_SENT = "determined/steps_completed/"  # in the summary, with a group behind it: the last step that was sent
_NOT_IN_PROJECTS = re.compile(r"[/\\#?%:\s]+")
_LONGEST_NAME = 128
_SERVICE_PROCESS = "wandb-core"
_EXIT_CODES = {"completed": 0, "stopped": 143, "failed": 1, "running": 1}
_SECONDS_TO_BEGIN, _SECONDS_TO_FINISH = 60.0, 8.0

# Only what a run reports goes out: no terminal, no code, nothing about the machine or the command line.
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


class WandbSink:
    """Rows of the history carry `steps_completed`, by which they are drawn.

    The own step of Weights & Biases only grows, and a row behind it would be ignored; ours may go back.
    """

    name = "wandb"

    def __init__(self, settings: Wandb) -> None:
        self._settings = settings
        self._run: Any = None

    def open(self, begin: Begin) -> Known:
        # Reports about the client itself: at the end of the program they are waited for, whoever answers or not.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        wandb = require("wandb", extra="wandb", purpose="the sink wandb")
        mode = self._settings.mode or wandb.setup().settings.mode
        if mode == "online" and not wandb.login(prompt=False, verify=False):
            raise RuntimeError("nobody is logged in: set WANDB_API_KEY, call `wandb login`, or choose mode offline")
        project = self._settings.project or os.environ.get("WANDB_PROJECT") or begin.experiment
        self._run = wandb.init(
            id=begin.key,
            resume="allow",
            reinit="create_new",  # the program may have a run of its own
            project=_NOT_IN_PROJECTS.sub("-", project)[:_LONGEST_NAME],
            entity=self._settings.entity,
            mode=self._settings.mode,
            name=begin.name[:_LONGEST_NAME],
            group=f"{begin.experiment[:100]}-{begin.experiment_id}",
            notes=begin.description or None,
            tags=[label[:64] for label in begin.labels],
            config={**begin.hparams, "determined": begin.config},
            allow_val_change=True,
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
                row = {"checkpoint/uuid": event.uuid, "checkpoint/storage": event.storage}
                self._run.log({**row, _STEP: event.steps_completed})
        self._run.summary.update({f"{_SENT}{group}": steps for group, steps in last_steps(events).items()})

    def end(self, state: EndState) -> None:
        self._run.summary["determined/state"] = state
        if state == "stopped":
            self._run.mark_preempting()
        self._run.finish(exit_code=_EXIT_CODES[state])

    def abandon(self) -> None:
        """The client would wait for its service process, which tries for long; what is in its file can be synced."""
        wandb = sys.modules.get("wandb")
        if wandb is None or wandb.run is not None:
            return  # the program's own run is still at work
        import psutil  # type: ignore[import-untyped,unused-ignore]

        for child in psutil.Process().children():
            if child.name() == _SERVICE_PROCESS:
                child.kill()
        # The client would miss it, aloud, when the interpreter ends. Its public teardown waits, and may call exit.
        forget = getattr(getattr(wandb.setup(), "_connection", None), "_cleanup", None)
        if callable(forget):
            forget()


def _settings(wandb: Any) -> Any:
    wanted = {
        **_NOTHING_ELSE,
        "silent": True,
        "init_timeout": _SECONDS_TO_BEGIN,
        "finish_timeout": _SECONDS_TO_FINISH,
    }
    # Those with an x are not promised to stay.
    return wandb.Settings(**{name: value for name, value in wanted.items() if name in wandb.Settings.model_fields})


def _sent_before(summary: dict[str, Any]) -> Known:
    return {
        name.removeprefix(_SENT): int(value)
        for name, value in summary.items()
        if name.startswith(_SENT) and isinstance(value, (int, float))
    }
