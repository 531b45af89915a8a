"""Bytes from a pipe are split into lines."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.engines.base import Line
from determined.engines.lines import Splitter, Stream
from determined.output_lines import LONGEST, level_of


def lines_of(*blocks: bytes) -> list[Line]:
    """Return the lines that are read when the blocks are written one after the other, and then the pipe ends."""
    reading, writing = os.pipe()
    stream = Stream("key", "stdout", reading)
    found: list[Line] = []
    try:
        for block in blocks:
            os.write(writing, block)
            found += stream.read()
        os.close(writing)
        return found + stream.read_all()
    finally:
        stream.close()


def texts(*blocks: bytes) -> list[str]:
    return [line.text for line in lines_of(*blocks)]


def test_lines_and_the_unfinished_last_one() -> None:
    assert texts(b"a\nb\n\nc") == ["a", "b", "", "c"]


def test_lines_that_name_no_rank_get_that_of_the_first_worker_of_their_node() -> None:
    splitter = Splitter("key", "stderr", rank=4)
    found = splitter.feed(b"[rank=5] hers\nof the launcher\n", 1.0)
    assert [(line.rank, line.text) for line in found] == [(5, "hers"), (4, "of the launcher")]


def test_a_line_that_is_rewritten_is_one_line_with_its_last_state() -> None:
    assert texts(b"\r 10%\r 20%\r\ndone\n") == [" 20%", "done"]
    assert texts(b"\r 10%", b"\r 20%", b"\r 30%") == [" 30%"]
    assert texts(b"a\r", b"\nb\n") == ["a", "b"]
    assert texts(b"a\r\n\r\nb\r\n") == ["a", "", "b"]


def test_the_state_of_a_progress_bar_is_known_while_it_grows() -> None:
    splitter = Splitter("key", "stderr")

    def fed(block: bytes, now: float) -> list[tuple[str, bool]]:
        return [(line.text, line.finished) for line in splitter.feed(block, now)]

    assert fed(b"begin\n\r  0%\r  1%", 100.0) == [("begin", True)]
    assert fed(b"\r  2%\r  3%", 101.9) == []
    assert fed(b"\r  4%\r  5%", 102.1) == [("  4%", False)]
    assert fed(b"\r  6%\r  7%", 103.0) == []
    assert fed(b"\r100%\nend\n", 103.1) == [("100%", True), ("end", True)]
    assert fed(b"\r next\r", 110.0) == []
    assert [line.text for line in splitter.flush(111.0)] == [" next"]


def test_the_state_of_a_progress_bar_of_a_rank() -> None:
    line, last = lines_of(b"~[rank=2]  40%\n[rank=2] 100%\n")
    assert (line.rank, line.text, line.finished) == (2, " 40%", False)
    assert (last.rank, last.text, last.finished) == (2, "100%", True)


def test_ranks_and_levels() -> None:
    line, other = lines_of(b"[rank=3] WARNING: [12] name: text\nWARNING: that\n")
    assert (line.rank, line.level, line.text) == (3, "WARNING", "WARNING: [12] name: text")
    assert (other.rank, other.level, other.text) == (0, "WARNING", "WARNING: that")
    assert (line.key, line.stream) == ("key", "stdout")


def test_bytes_that_are_no_text_are_kept_as_escapes() -> None:
    assert texts(b"\xff\xfeab\n", "ü".encode() + b"\n") == ["\\xff\\xfeab", "ü"]


def test_a_long_line_comes_in_pieces() -> None:
    found = texts(b"x" * (3 * LONGEST), b"y\nshort\n")
    assert all(len(text) <= LONGEST for text in found)
    assert "".join(found) == "x" * (3 * LONGEST) + "y" + "short"
    assert found[-1] == "short"


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b" "]), max_size=30), st.data())
def test_it_does_not_matter_how_the_bytes_arrive(parts: Sequence[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    expected = [text for text in texts(whole) if text]
    assert [text for text in texts(*filter(None, pieces)) if text] == expected


def test_a_long_line_is_cut_between_words() -> None:
    words = "".join(f"SOME_TOKEN={number:021} " for number in range(1900))
    found = texts(words.encode(), b"end\n")
    assert len(found) > 1
    assert all(len(text) <= LONGEST for text in found)
    assert all(text.endswith(" ") for text in found[:-1])
    assert "".join(found) == words + "end"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("WARNING: text", "WARNING"),
        ("INFO:root:as logging.basicConfig() prints it", "INFO"),
        ("ERROR:my.module:text", "ERROR"),
        ("CRITICAL:", None),
        ("ERROR:nothing", None),
        ("error: text", None),
        ("INFORMATION: text", None),
    ],
)
def test_levels_that_programs_print(text: str, level: str | None) -> None:
    assert level_of(text) == level
