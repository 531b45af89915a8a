"""The hashes of code files, which are kept as long as nothing changes a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from determined.experiment.code import reading
from determined.experiment.code.reading import Code, known_hash_of, list_files
from tests.helpers.waiting import wait_until


def test_a_kept_hash_is_that_of_the_present_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if another content has the same size and time, in the same file or in one that replaces it."""
    monkeypatch.setattr(reading, "_CLOCK_STEP_NS", 50_000_000)
    (tmp_path / "code").mkdir()
    code, path = Code(tmp_path / "code", None), tmp_path / "code" / "train.py"

    def found() -> str:
        (file,) = list_files(code)
        return known_hash_of(code, file)

    def is_kept() -> bool:
        (file,) = list_files(code)
        known_hash_of(code, file)
        return file.stamp in reading._hashes

    for content in ("one", "two", "longer", "six"):
        for replaced in (False, True):
            written = tmp_path / "new" if replaced else path
            written.write_text(content if replaced else content.upper())
            os.utime(written, (1e9, 1e9))
            written.replace(path)
            expected = hashlib.sha256(path.read_bytes()).hexdigest()
            assert found() == expected
            wait_until(is_kept, "the hash is not kept")
            assert found() == expected
