"""The command `det tensorboard start`."""

from __future__ import annotations

import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from determined.cli.command import Command, explain_unused
from determined.cli.display.output import Form, print_json_line, with_json
from determined.cli.selection.arguments import Ids, complete_experiments, complete_trials, expand, numbers
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError
from determined.names import is_plain_directory
from determined.ranking import ranked
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store

_TRIALS = ("-t", "--trial-ids")

MOST_TRIALS = 100  # TensorBoard becomes slow with more


class _Start(Command):
    """A command that accepts several values after `-t`, as Determined did: `-t 7 8`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option `-t` before each of its values, because click accepts one value per option."""
        spread: list[str] = []
        naming_trials = False
        for word in args:
            if word.startswith("-"):
                naming_trials = word in _TRIALS
                spread += [] if naming_trials else [word]
            else:
                spread += [_TRIALS[0], word] if naming_trials else [word]
        return super().parse_args(ctx, spread)


@click.command(cls=_Start, action="start TensorBoard")
@click.argument(
    "experiment_ids", metavar="[EXPERIMENT_ID]...", nargs=-1, callback=numbers, shell_complete=complete_experiments
)
@click.option(
    *_TRIALS,
    "trial_ids",
    multiple=True,
    callback=numbers,
    shell_complete=complete_trials,
    metavar="TRIAL_ID...",
    help="Trials to show.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on (default: a free one).")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--config-file", metavar="FILE", help="Accepted for old command lines: there is no container.")
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="Accepted for old command lines.")
@click.option("-c", "--context", metavar="DIRECTORY", help="Accepted for old command lines.")
@with_json
def start(
    experiment_ids: list[Ids],
    trial_ids: list[Ids],
    port: int,
    no_browser: bool,
    config_file: str | None,
    configs: tuple[str, ...],
    context: str | None,
    form: Form,
) -> None:
    """Start TensorBoard for experiments and trials.

    It is reachable from this machine only, and runs until Ctrl-C. At most 100 trials are shown, the best ones.

    \b
    Example: det tensorboard start 3 4 -t 17
    """
    if not experiment_ids and not trial_ids:
        raise click.UsageError("name experiments, or trials with -t")
    for option, given in (("--config-file", config_file), ("--config", configs), ("-c/--context", context)):
        explain_unused(option, given, "TensorBoard runs on this machine, without a container")
    with opened_store() as store:
        trials = chosen_trials(store, expand("experiment", experiment_ids), expand("trial", trial_ids))
        directories = directories_of(store, trials[:MOST_TRIALS])
    if not directories:
        raise DeterminedError("these trials have no TensorBoard files on this machine")
    if len(trials) > MOST_TRIALS:
        click.echo(f"Showing the best {MOST_TRIALS} of {len(trials)} trials", err=True)
    signal.signal(signal.SIGTERM, _end)  # exits through an exception, so that the temporary directory is removed
    with tempfile.TemporaryDirectory(prefix="det-tensorboard-") as root:
        link_all(Path(root), directories)
        url = _serve(root, port)
        if form == "json":
            print_json_line({"url": url, "directories": {name: str(path) for name, path in directories.items()}})
        else:
            click.echo(f"TensorBoard of {counted(len(directories), 'run')} is at {url} (Ctrl-C ends it)")
        if not no_browser:
            webbrowser.open(url)
        try:
            # TensorBoard serves in threads; this one only waits for a signal.
            threading.Event().wait()
        except KeyboardInterrupt:
            click.echo(err=True)


def _serve(root: str, port: int) -> str:
    """Serve TensorBoard on the loopback device in threads of this process, and return its address."""
    from tensorboard import program as tensorboard_program

    note = "_DATA_SERVER_ADVISORY_MESSAGE"  # recommends an option that users of `det` cannot pass
    # Private, so it may disappear in any release.
    if hasattr(tensorboard_program, note):
        setattr(tensorboard_program, note, "")
    program = tensorboard_program.TensorBoard()
    # Loopback only: TensorBoard has no password.
    program.configure(logdir=root, host="127.0.0.1", port=port)
    try:
        return str(program.launch())
    except tensorboard_program.TensorBoardServerException as error:
        raise DeterminedError(error.msg) from error


def _end(number: int, frame: object) -> NoReturn:
    """Signal handler: exit with the code that a shell expects for the signal."""
    sys.exit(128 + number)


def chosen_trials(store: Store, experiment_ids: Sequence[int], trial_ids: Sequence[int]) -> list[Trial]:
    """Return the named trials, then those of the experiments, best first; each trial once."""
    found = [store.experiments.trial(trial_id) for trial_id in trial_ids]
    for experiment_id in experiment_ids:
        found += _best_first(store.experiments.get(experiment_id), store.experiments.trials(experiment_id))
    return list({trial.id: trial for trial in found}.values())


def directories_of(store: Store, trials: Sequence[Trial]) -> dict[str, Path]:
    """Return the directories on this machine, by the name that TensorBoard shows; only plain paths are used."""
    found: dict[str, Path] = {}
    for trial in trials:
        # Directories of other hosts may exist here with other contents, but those of a cluster's nodes are copied here.
        is_copied = trial.nodes is not None
        attempts = [one for one in store.attempts(trial.id) if is_copied or one.process.host == socket.gethostname()]
        runs = [attempt.run_dir for attempt in attempts if is_plain_directory(attempt.run_dir)]
        paths = dict.fromkeys(Path(run) / "tensorboard" for run in runs)
        for number, path in enumerate((path for path in paths if path.is_dir()), start=1):
            name = f"experiment_{trial.experiment_id}/trial_{trial.id}"
            found[name if number == 1 else f"{name}_run_{number}"] = path
    return found


def link_all(root: Path, directories: Mapping[str, Path]) -> None:
    """Create a symbolic link for each directory: TensorBoard's list of paths cannot contain a comma or a colon."""
    for name, path in directories.items():
        link = root / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(path, target_is_directory=True)


def _best_first(experiment: Experiment, trials: list[Trial]) -> list[Trial]:
    """Return the trials of an experiment, best first; those without a metric last."""
    return ranked(
        trials,
        lambda trial: trial.best,
        lambda trial: trial.id,
        smaller_is_better=experiment.smaller_is_better,
    )
