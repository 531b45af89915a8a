"""The function that follows pages notices when a page is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.following import follow, matches

PAGE = """
Write `in/greet.py`:

```python
print("hello", 3.25)
```

```sh
cd in
who=reader
python greet.py
```

```text
hello 3.…
```

```sh
echo "$who in $(basename "$PWD")"; echo more; echo and more
```

```text
reader in in
…
```
"""


def test_files_are_written_and_the_shell_stays_the_same(tmp_path: Path) -> None:
    follow(PAGE, tmp_path)
    assert (tmp_path / "in" / "greet.py").is_file()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("hello 3.…", "goodbye 3.…"), ("python greet.py", "python greet.py --and; false"), ("```python", "```yaml\n- ")],
    ids=["other words", "a command that fails", "a file that is no program"],
)
def test_what_is_wrong_is_noticed(right: str, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        follow(PAGE.replace(right, wrong), tmp_path)


def test_a_block_that_is_no_file_and_no_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not know what to do"):
        follow("Some words.\n\n```python\nprint(1)\n```\n", tmp_path)


def test_tables_match_with_any_width() -> None:
    printed = " ID | Name    | State\n----+---------+------\n  1 | mnist   | DONE\n"
    assert matches(" ID | Name | State\n---+---+---\n 1 | … | DONE\n", printed)
    assert not matches(" ID | Name | State\n---+---+---\n 2 | … | DONE\n", printed)
    assert not matches(" ID | Name | State\n---+---+---\n", printed)
