"""Handle standard output that is full or closed: a command then ends with exit code 1 and a one-line message.

Otherwise Python would print a traceback, lose the output silently (a closed stream is None), or exit with code 120.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from determined.config.secrets.line_mask import LineMask

STANDARD_OUTPUT = "standard output"

# The first error of standard output after which the command continued.
_lost: OSError | None = None


class _Output(io.FileIO):
    """Standard output whose errors contain its name, to distinguish them from errors of files."""

    def write(self, data: Any, /) -> int:
        """Write bytes; an error names standard output as its file."""
        try:
            return super().write(data)
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise OSError(error.errno, reason, STANDARD_OUTPUT) from None


def prepare() -> None:
    """Make sure that all three standard streams exist, and that errors of standard output contain its name."""
    global _lost
    # For tests that run several commands in one process.
    _lost = None
    _open_missing_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open until the process ends
    # A stream that a program or a test has replaced is kept.
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _buffered(io.FileIO(2, "wb", closefd=False), sys.stderr, flush_lines=True)
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _buffered(_Output(1, "wb", closefd=False), sys.stdout, flush_lines=os.isatty(1))


def _buffered(output: io.FileIO, original: TextIO | None, *, flush_lines: bool) -> TextIO:
    """Return a text stream with a buffer, in the encoding of the original stream.

    With PYTHONUNBUFFERED, Python's streams have no buffer and lose the rest of a text if a signal interrupts the write:
    a Ctrl-C would then cost the live view some lines, and the next frame would erase too many.
    """
    encoding = None if original is None else original.encoding
    buffer = io.BufferedWriter(output)
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=flush_lines)


class _MaskedText(io.TextIOWrapper):
    """A text stream that masks secrets in what is written to it."""

    def __init__(self, stream: TextIO, mask: LineMask) -> None:
        super().__init__(stream.buffer, "utf-8", errors="backslashreplace", line_buffering=True)
        self._underlying = stream  # kept alive: its finalizer would close the shared buffer
        self._mask = mask

    def write(self, text: str, /) -> int:
        super().write(self._mask(text))
        return len(text)


def mask_output(mask: LineMask) -> None:
    """Mask secrets in everything that this process prints from now on, because its output goes to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    sys.stdout, sys.stderr = _MaskedText(sys.stdout, mask), _MaskedText(sys.stderr, mask)


def _open_missing_descriptors() -> None:
    """Open missing standard descriptors on /dev/null.

    Otherwise the next file to be opened, such as the store, would get the number of a standard stream, and child
    processes would write into it. Number 1 is opened for reading, so that writing to a closed standard output still is
    an error.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            # Usually equal: `open` takes the lowest free number, and all lower ones exist by now.
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)


def is_output_error(error: OSError) -> bool:
    """Return whether an error is one of standard output."""
    return bool(error.filename == STANDARD_OUTPUT)


def report_lost_output(error: OSError) -> None:
    """Print a line about output that could not be written, unless standard error is unusable as well."""
    with contextlib.suppress(OSError):
        click.echo(f"{STANDARD_OUTPUT} cannot be written: {error.strerror}", err=True)


@contextlib.contextmanager
def continuing_without_output(trouble: type[OSError] = OSError) -> Iterator[None]:
    """Ignore errors of printing inside the block: the store contains everything.

    If the reader has closed the pipe, as `head` does, nothing else happens. If the output is full or closed, the exit
    code will be 1.
    """
    global _lost
    try:
        yield
    except trouble as error:
        if is_output_error(error) and not isinstance(error, BrokenPipeError):
            _lost = _lost or error
        silence_broken_streams()


def silence_broken_streams() -> None:
    """Redirect streams that cannot be written to /dev/null, so that later writes and the flush at exit do not fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        # Below the stream, whose buffer still holds the text: Python would write it again at exit and fail.
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
            stream.flush()


def flushed_exit_code(code: Any) -> Any:
    """Flush the output and return the exit code of a command that is about to exit with `code`."""
    lost, has_failed = _lost, code not in (0, None)  # a command that failed has already printed why
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # A reader that ends early, as `head` does, gets no message.
        code = code or 1
    except OSError as error:
        lost = lost or error
    if lost is not None and not has_failed:
        report_lost_output(lost)
        code = 1
    silence_broken_streams()
    return code
