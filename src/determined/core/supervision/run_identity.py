"""The identity of standalone runs: runs of one program, or with one name, share `latest_checkpoint="latest"`."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from determined.store.process import this_user
from determined.user_code.program import Program

NAME_VARIABLE = "DET_RUN_NAME"
_LONGEST_NAME = 200  # fits into lists and into the identity, which is indexed


def run_name(given: str | None, env: Mapping[str, str]) -> str | None:
    """Return the name of the run from the argument or the environment; raise ValueError if it is unusable."""
    source, name = ("name", given) if given is not None else (NAME_VARIABLE, env.get(NAME_VARIABLE) or None)
    if name is None:
        return None
    if not isinstance(name, str):
        raise TypeError(f"init: {source} must be a text, got {type(name).__name__}: {name!r:.80}")
    # Printable, because the name is shown in tables and stored in identities.
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError(
            f"init: {source} must be 1 to {_LONGEST_NAME} printable characters, got {name!r:.80}; "
            "for example: resnet-baseline"
        )
    return name


def run_labels(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the labels of a run without duplicates; raise TypeError if they are not a list of texts."""
    if given is None:
        return ()
    # A text is a sequence of texts too, and would become a label for each letter.
    if isinstance(given, str) or not isinstance(given, (list, tuple, set, frozenset)):
        raise TypeError(f"init: labels must be a list of texts, for example ['baseline'], got {given!r:.80}")
    for label in given:
        if not isinstance(label, str) or not label.strip():
            raise TypeError(f"init: labels must be a list of texts that are not empty, got {label!r:.80}")
    return tuple(dict.fromkeys(given))


def run_notes(given: str | None) -> str:
    """Return the notes on a run; raise TypeError if they are not a text."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"init: notes must be a text, got {type(given).__name__}: {given!r:.80}")
    return given or ""


def run_identity(program: Program, name: str | None) -> str | None:
    """Return a text that all runs of the same program share, or None for code that has neither a file nor a name.

    A name replaces host and path, so that it survives a moved directory and a new container.
    """
    if name is not None:
        return f"name:{this_user()}:{name}"
    if program.file is None:
        return None
    return f"file:{this_user()}@{socket.gethostname()}:{program.file}"


def shown_identity(identity: str) -> str:
    """Return an identity as shown in messages: `user@host:path`, or `user:name`."""
    return identity.partition(":")[2]
