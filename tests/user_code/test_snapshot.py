"""The files in a snapshot of a standalone program."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import socket
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from determined.user_code import snapshot
from determined.user_code.root import CodeRoot
from determined.user_code.snapshot import take_snapshot


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "proj"
    directory.mkdir()
    return directory


@pytest.fixture(autouse=True)
def log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def write(source: Path, *names: str, content: str | bytes = "text\n") -> None:
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def taken(
    source: Path, *leave_out: Path, in_use: tuple[str, ...] = (), complete: bool = True, private: bool = True
) -> set[str]:
    target = source.parent / "run" / "code"
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    root = CodeRoot(source, tuple(source / name for name in in_use), complete)
    take_snapshot(root, target, list(leave_out), private=private)
    assert not target.with_name(".code").exists()
    return {file.relative_to(target).as_posix() for file in target.rglob("*") if not file.is_dir()}


def test_rules(source: Path) -> None:
    write(
        source,
        *("train.py", "package/__init__.py", "package/data.json", "keep.tmp", "sub/shared_fs/x.py", "notes.ipynb"),
        *(".env", "prod.env", ".git/config", ".hidden/file.py", "package/__pycache__/x.pyc", "old.pyc", "server.pem"),
        *("deploy.key", "id_rsa", "private/credentials", "terraform.tfstate", "runs/events.out", "shared_fs/x"),
        *("datasets/a.txt", "notes.tmp", "node_modules/x/index.js", "lib/site-packages/x.py"),
        *("venv/pyvenv.cfg", "venv/lib/x.py", "conda/conda-meta/history", "conda/lib/x.py"),
        *("checkpoints/1/load_data.json", "checkpoints/1/code/train.py"),
    )
    (source / ".detignore").write_text("datasets/\n!.env\n!deploy.key\n")
    (source / ".gitignore").write_text("*.tmp\n!keep.tmp\n")
    assert taken(source) == {
        *("train.py", "package/__init__.py", "package/data.json", "keep.tmp", "sub/shared_fs/x.py", "notes.ipynb"),
    }


def test_text_up_to_1_MiB_and_what_was_skipped_in_one_line(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(source, "train.py", "latin.py", content="# é\n".encode("latin-1"))
    write(source, "just.csv", content=b"x" * 2**20)
    write(source, "long.csv", content=b"x" * (2**20 + 1))
    write(source, "data.bin", "image.png", content=b"\x89PNG\0\1")
    assert taken(source) == {"train.py", "latin.py", "just.csv"}
    (line,) = [record for record in caplog.records if "skipped" in record.message]
    assert line.levelno == logging.INFO  # data beside a script cause no warning
    for part in ("not text: data.bin, image.png", "above 1 MiB: long.csv", f"!PATTERN to {source / '.detignore'}"):
        assert part in line.message


def test_nothing_is_logged_when_nothing_is_skipped(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(source, "train.py")
    assert taken(source) == {"train.py"}
    assert caplog.records == []


def test_a_script_that_a_rule_excludes_is_named(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(source, "scratch/train.py", "scratch/other.py", "model.py")
    write(source, ".gitignore", content="scratch/\n")
    assert taken(source, in_use=("scratch/train.py",)) == {"model.py"}
    (line,) = [record.message for record in caplog.records if "skipped" in record.message]
    assert "excluded by .gitignore, .detignore or a built-in rule: scratch/train.py." in line
    write(source, ".detignore", content="!scratch/\n")
    assert "scratch/train.py" in taken(source, in_use=("scratch/train.py",))


def test_more_is_included_by_detignore(source: Path) -> None:
    write(source, "vocab.bin", "data/a.bin", "data/b.bin", "other.bin", content=b"\0" * 3_000_000)
    (source / ".gitignore").write_text("*.bin\n")
    (source / ".detignore").write_text("!vocab.bin\n!data/*.bin\ndata/b.bin\n")
    assert taken(source) == {"vocab.bin", "data/a.bin"}
    assert (source.parent / "run" / "code" / "vocab.bin").stat().st_size == 3_000_000


def test_links_pipes_sockets_and_depth(source: Path, tmp_path: Path) -> None:
    write(source, "train.py")
    write(tmp_path, "secret.txt")
    (source / "dangling").symlink_to(source / "nowhere")
    (source / "loop").symlink_to(source)
    (source / "outside.txt").symlink_to(tmp_path / "secret.txt")
    (source / "outside").symlink_to(tmp_path)
    os.mkfifo(source / "fifo")
    os.mkfifo(source / ".gitignore")
    open(os.fsencode(source) + b"/\xff\xfe.py", "wb").close()
    here = os.open(source, os.O_RDONLY)
    for _ in range(25):  # deeper than a path can be long
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    old = os.getcwd()
    os.chdir(source)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
            names = taken(source)
    finally:
        os.chdir(old)
    assert names == {"train.py", os.fsdecode(b"\xff\xfe.py")}


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="needs a file system below another one")
def test_devices_and_other_file_systems(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = Path("/dev/shm") / f"{uuid.uuid4()}.py"
    elsewhere.write_text("text")
    try:
        take_snapshot(CodeRoot(Path("/dev"), (elsewhere,), True), tmp_path / "code", [])
    finally:
        elsewhere.unlink()
    assert elsewhere.name not in {path.name for path in (tmp_path / "code").rglob("*")}
    assert "on another file system" in caplog.text
    assert "shm/" in caplog.text


def test_only_files_in_use_of_a_shared_directory(source: Path) -> None:
    write(source, "train.py", "helper.py", "diary.txt", "pack/inner.py", ".hidden/tool.py", "ignored/tool.py")
    (source / ".gitignore").write_text("ignored/\n")
    in_use = ("train.py", "helper.py", "pack/inner.py", ".hidden/tool.py", "ignored/tool.py", "gone.py")
    assert taken(source, in_use=in_use, complete=False) == {"train.py", "helper.py", "pack/inner.py"}


def test_what_is_left_out_by_the_caller(source: Path) -> None:
    write(source, "train.py", "data/records.db", "checkpoints/1/load_data.json")
    assert taken(source, source / "data" / "records.db", source / "checkpoints") == {"train.py"}


def test_copies_are_private_and_read_only(source: Path) -> None:
    write(source, "train.py", "run.sh", "secret.txt", content="old")
    (source / "run.sh").chmod(0o755)
    (source / "secret.txt").chmod(0o600)
    taken(source, private=False)
    code = source.parent / "run" / "code"
    with open(source / "train.py", "w") as file:  # as an editor that writes in place
        file.write("new")
    assert (code / "train.py").read_text() == "old"
    modes = {file.name: file.stat().st_mode & 0o777 for file in code.iterdir()}
    assert modes == {"train.py": 0o444, "run.sh": 0o555, "secret.txt": 0o400}
    taken(source)
    modes = {file.name: file.stat().st_mode & 0o777 for file in [code, *code.iterdir()]}
    assert modes == {"code": 0o700, "train.py": 0o400, "run.sh": 0o500, "secret.txt": 0o400}


@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 25), ("MAX_FILES", 5)])
def test_a_limit_costs_files_that_are_not_in_use_and_is_worth_a_warning(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: str, value: int
) -> None:
    monkeypatch.setattr(snapshot, limit, value)
    write(source, *(f"{number}.json" for number in range(9)), "train.py")
    names = taken(source, in_use=("train.py",))
    assert len(names) == 5
    assert "train.py" in names
    (line,) = [record for record in caplog.records if "skipped" in record.message]
    assert line.levelno == logging.WARNING
    assert "8.json" in line.message


def test_it_ends_in_time_and_says_so(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(source, *(f"{number}.py" for number in range(20)), "train.py")
    clock = iter(range(100))  # each call of the clock advances it by a second
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    names = taken(source, in_use=("train.py",))
    assert "train.py" in names
    assert len(names) < 5
    assert "was ended after 5 s" in caplog.text


def test_a_large_file_that_takes_too_long_is_not_taken_in_part(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(source, "vocab.bin", content=bytes(20 * 2**20))
    (source / ".detignore").write_text("!vocab.bin\n")
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) / 2)
    assert taken(source) == set()


def test_a_full_disk_is_an_error_that_says_what_was_not_saved(source: Path) -> None:
    write(source, "train.py", content="x" * 5000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="the code snapshot of this run was not saved: File too large"):
            taken(source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((source.parent / "run").iterdir()) == []


def test_code_without_a_file_gives_an_empty_snapshot_and_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    take_snapshot(None, tmp_path / "code", [])
    assert list((tmp_path / "code").iterdir()) == []
    assert "no code snapshot" in caplog.text


NAMES = st.sampled_from(["a.py", "b.txt", ".env", "x.key", "d", "e", "id_rsa", "data.bin"])


@settings(max_examples=40)
@given(
    tree=st.dictionaries(
        st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.sampled_from([b"t", b"\0", b"", b"x" * 300])
    ),
    ignored=st.lists(st.sampled_from(["*.py", "!*.bin", "d/", "!.env", "!x.key", "e", "!d", "**/b.txt"]), max_size=4),
)
def test_no_tree_and_no_rules_let_a_secret_or_half_a_file_through(
    tree: dict[str, bytes], ignored: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = tmp_path_factory.mktemp("tree") / "proj"
    source.mkdir()
    for name, content in tree.items():
        try:
            write(source, name, content=content)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            continue  # a name cannot be both a file and a directory
    (source / ".detignore").write_text("\n".join(ignored))
    for name in taken(source):
        parts = name.split("/")
        assert not any(part.startswith(".") or part in ("id_rsa", "x.key") for part in parts), name
        content = (source.parent / "run" / "code" / name).read_bytes()
        assert content == (source / name).read_bytes()
        assert b"\0" not in content or any(rule.startswith("!") for rule in ignored)
