"""Messages about where training resumes, and how to continue a run that was stopped or failed."""

from __future__ import annotations

import atexit
import shlex
import sys
from typing import Any

from determined import core
from determined.config.secrets.masking import mask_arguments
from determined.core.supervision.run_identity import NAME_VARIABLE
from determined.pytorch.checkpoint.latest import LATEST
from determined.pytorch.display.progress import say
from determined.pytorch.plan import UNKNOWN_LENGTH, Plan
from determined.user_code.program import is_interactive, this_program


def resumed(checkpoint: str, batches: int, plan: Plan, *, nothing_to_do: bool) -> str:
    """Return the message about a restored checkpoint; with one of another trial, batches count from 0."""
    if nothing_to_do:
        return f"Nothing to do: already trained to {_where(batches, plan, brief=True)} (checkpoint {checkpoint})"
    if batches == 0:
        return f"Starting at batch 0 with the weights of checkpoint {checkpoint}"
    within = 0 if plan.epoch_length == UNKNOWN_LENGTH else plan.epoch_of(batches)[1]
    preposition = "in" if within else "at"
    return f"Resuming from checkpoint {checkpoint} {preposition} {_where(batches, plan)}"


def finishing(plan: Plan) -> str:
    """Return the line about a `fit` that is given less than what is left of an interrupted one."""
    return f"Finishing the length of the interrupted fit: training to {_where(plan.last_batch, plan)}"


def _where(batches: int, plan: Plan, *, brief: bool = False) -> str:
    """Return a text like `epoch 30 (batch 1,200)`: the epoch that has just ended, or the one in progress."""
    batch = f"batch {batches:,}"
    if plan.epoch_length == UNKNOWN_LENGTH:
        return batch
    epochs, within = plan.epoch_of(batches)
    if brief:
        return batch if within else f"epoch {epochs}"
    return f"epoch {epochs + (within > 0)} ({batch})"


def how_to_continue(
    core_context: core.Context, given: Any, checkpoint: Any, *, is_refused: bool, has_saved: bool
) -> str | None:
    """Return the line about continuing a standalone script, or None.

    `given` is the `latest_checkpoint` that the program passed to `fit`, and `checkpoint` the one that it stands for.
    `is_refused` says that this checkpoint does not fit the program, `has_saved` that this `fit` has saved another.

    None is returned in an experiment, whose runner prints its own line, in an interactive session, where the next `fit`
    continues, and if no command can start the code again.
    """
    ranks = core_context.distributed
    # Experiments print their own line (`det experiment activate`), and other ranks would repeat it.
    if is_interactive() or ranks.rank != 0 or core_context.info.trial.trial_id != 0:
        return None
    command = _command(ranks.size)
    if command is None:
        return None
    if is_refused:
        return _after_refusal(given, checkpoint, command)
    if not has_saved and checkpoint in (None, LATEST):
        return f"No checkpoint was saved. To start from the beginning: {command}"
    if given == LATEST:
        return f"To continue: {command}"
    return f'To continue: pass latest_checkpoint="latest" to fit(), and run again: {command}'


def _after_refusal(given: Any, checkpoint: Any, command: str) -> str:
    """Return the line about a start that was refused because the checkpoint does not fit."""
    former = f"To continue the former run, use the code and hyperparameters of checkpoint {checkpoint}"
    if given == LATEST:
        return f"{former}; to train with the present ones, give the run another name: {NAME_VARIABLE}=NAME {command}"
    return f"{former}; to train with the present ones, call fit() without latest_checkpoint"


def say_after_traceback(error: BaseException, line: str) -> None:
    """Print `line` at program exit if this error ends the program.

    Python prints the traceback before exit handlers run, so the line comes after it.
    """

    def at_exit() -> None:
        """Print the line if the error, or one that it caused, ended the program."""
        ended_by = getattr(sys, "last_value", None)  # set by Python for an uncaught exception
        while ended_by is not None and ended_by is not error:
            ended_by = ended_by.__cause__ or ended_by.__context__
        if ended_by is error:
            say(line)

    atexit.register(at_exit)


def _command(ranks: int) -> str | None:
    """Return the command line of this program with secrets masked, or None for code without a command.

    With several ranks, the launcher's command line is not known in this process.
    """
    program = this_program()
    if program.kind not in ("script", "module"):
        return None
    if ranks > 1:
        return "the same command as before"
    words = ["python", *(["-m", program.module] if program.module else sys.argv[:1]), *sys.argv[1:]]
    return shlex.join(mask_arguments(words))
