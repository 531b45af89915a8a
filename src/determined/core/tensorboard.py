"""The TensorBoard event files of a run, including automatically written scalars."""

from __future__ import annotations

import enum
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from determined.config.metric_values import is_finite

if TYPE_CHECKING:
    from determined.tensorboard.events import EventFileWriter


class TensorboardMode(enum.Enum):
    """AUTO writes every reported scalar; MANUAL leaves the files to the user."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


class TensorboardFiles:
    """The event files of one rank: the chief's are in the run's directory, those of other ranks in subdirectories."""

    def __init__(self, run_dir: Path, rank: int, mode: TensorboardMode) -> None:
        self._shared = run_dir / "tensorboard"
        self._rank = rank
        self._mode = mode
        self._writer: EventFileWriter | None = None

    @property
    def mode(self) -> TensorboardMode:
        """Whether reported scalars are written automatically."""
        return self._mode

    def path(self) -> Path:
        """Return this rank's directory; it is created on first request."""
        # One by one, because `parents=True` ignores the mode for parents.
        for directory in (self._shared.parent, self._shared):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._rank == 0:
            return self._shared
        path = self._shared / f"rank_{self._rank}"
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def write_report(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Write the scalars of a report; nothing in MANUAL mode and on ranks other than the chief."""
        if self._mode is not TensorboardMode.AUTO or self._rank != 0:
            return
        rows = [
            (_tag(group, name), steps_completed, float(value)) for name, value in metrics.items() if _is_scalar(value)
        ]
        if not rows:
            return
        if self._writer is None:
            # Imported on use: most ranks write no event files.
            from determined.tensorboard.events import EventFileWriter

            self._writer = EventFileWriter(self.path())
        self._writer.add_scalars(rows)

    def upload(self, selector: Callable[[Path], bool], mangler: Callable[[Path, int], Path]) -> None:
        """Copy this rank's selected files to the chief's directory, under their mangled names."""
        if self._mode is not TensorboardMode.MANUAL:
            raise RuntimeError("upload_tensorboard_files is for TensorboardMode.MANUAL, the mode is AUTO")
        own = self.path()
        # Listed before anything is copied, because copies may be created in the directory that is searched.
        for source in list(self._own_files(own)):
            relative = source.relative_to(own)
            if not selector(relative):
                continue
            target = self._shared / mangler(relative, self._rank)
            # A mangler is code of the user, and may return a path with `..`.
            if not target.resolve().is_relative_to(self._shared.resolve()):
                raise ValueError(f"mangler led {str(relative)!r} out of {self._shared}: {str(target)!r}")
            if target != source:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def close(self) -> None:
        """Write pending scalars and close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _own_files(self, own: Path) -> Iterator[Path]:
        """Yield this rank's files; the chief's directory contains those of other ranks, which are skipped."""
        for path in sorted(own.rglob("*")):
            first = path.relative_to(own).parts[0]
            if path.is_file() and not (self._rank == 0 and first.startswith("rank_")):
                yield path


def _tag(group: str, name: str) -> str:
    """Return the TensorBoard tag of a metric."""
    # These tags are those of Determined, so that the curves of old and new runs are drawn together.
    if group == "training":
        return f"Determined/{name}"
    if group == "validation":
        return f"Determined/{name}" if name.startswith("val") else f"Determined/val_{name}"
    return f"{group}/{name}"


def _is_scalar(value: Any) -> bool:
    """Return whether a value can be plotted: any float, and every integer that fits into one."""
    return isinstance(value, float) or is_finite(value)
