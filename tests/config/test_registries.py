"""The registries: what an entry names exists, and no other code compares the names of methods, storages and sinks."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from determined.checkpoint_storage import build_from_config
from determined.checkpoint_storage.settings import StorageSettings
from determined.checkpoint_storage.types.s3 import S3Settings
from determined.config.blocks.block import Block
from determined.config.blocks.searcher import searcher_model
from determined.config.blocks.storage import storage_model
from determined.config.experiment import load_experiment
from determined.config.reading.legacy_searchers import retired_methods
from determined.config.registry.implementation import load
from determined.config.registry.search_methods import SEARCH_METHODS, SearchMethod
from determined.config.registry.sinks import SINKS
from determined.config.registry.storage_types import STORAGE_TYPES
from determined.errors import DeterminedError, InvalidConfigurationException
from determined.searchers.base import Create, Exited, Extended, Reopened
from determined.searchers.build import build
from determined.searchers.method import Method
from determined.searchers.preview import preview
from determined.searchers.simulate import Behaviour, simulate
from determined.sinks.base import Sink
from tests.searchers.methods import GRID, METHODS, SPACE, config

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "determined"

STORAGES: dict[str, dict[str, Any]] = {
    "shared_fs": {"host_path": "/data", "storage_path": "checkpoints"},
    "directory": {"container_path": "/data/checkpoints"},
    "s3": {"bucket": "checkpoints", "prefix": "mine"},
    "gcs": {"bucket": "checkpoints"},
    "azure": {"container": "checkpoints", "connection_string": "UseDevelopmentStorage=true"},
}


def space_of(name: str) -> dict[str, Any]:
    return GRID if METHODS[name]["name"] == "grid" else SPACE


def test_every_search_method_has_an_example_in_the_tests() -> None:
    assert {settings["name"] for settings in METHODS.values()} == SEARCH_METHODS.keys()


@pytest.mark.parametrize("name", SEARCH_METHODS)
def test_a_search_method_is_complete(name: str) -> None:
    method = load(SEARCH_METHODS[name].implementation)
    assert issubclass(method, Method)
    assert not inspect.isabstract(method), f"{method.__name__} lacks {sorted(method.__abstractmethods__)}"
    assert get_args(method.model_fields["name"].annotation) == (name,)
    assert method.__doc__
    assert method.to_continue
    assert searcher_model(name) == method


def test_a_search_method_under_another_name_is_named_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        SEARCH_METHODS, "hill_climbing", SearchMethod("determined.searchers.methods.random:RandomSearch")
    )
    with pytest.raises(DeterminedError) as raised:
        searcher_model("hill_climbing")
    assert str(raised.value) == (
        "the search method 'hill_climbing' in determined/config/registry/search_methods.py is "
        "determined.searchers.methods.random:RandomSearch, whose field `name` is Literal['random']: "
        "it must be Literal['hill_climbing']"
    )


@pytest.mark.parametrize("name", METHODS)
def test_a_search_method_builds_and_previews_itself(name: str) -> None:
    settings = config(name)
    loaded = load_experiment(
        {"entrypoint": "a:B", "hyperparameters": space_of(name), "searcher": {"metric": "loss", **METHODS[name]}}
    ).config
    assert type(loaded.searcher) is type(settings)
    shown = preview(settings, space_of(name), slots=2)
    created = build(settings, space_of(name), 7).start()
    assert 1 <= len(created) <= shown.trials
    assert (shown.trials == 1) == SEARCH_METHODS[settings.name].one_trial
    again = [repr(action) for action in build(settings, space_of(name), 7).start()]
    assert [repr(action) for action in created] == again, "the same seed builds another search"


@pytest.mark.parametrize("name", METHODS)
def test_the_registered_properties_are_those_of_the_searcher(name: str) -> None:
    settings, registered = config(name), SEARCH_METHODS[METHODS[name]["name"]]
    searcher = build(settings, space_of(name), 7)
    created = [action for action in searcher.start() if isinstance(action, Create)]
    if "max_trials" in type(settings).model_fields:
        assert "searcher.max_trials" in settings.to_continue
        searcher.on_event(Extended(settings.max_trials + 1))
    else:
        assert "searcher.max_trials" not in settings.to_continue
        with pytest.raises(InvalidConfigurationException, match=r"extended|trials"):
            searcher.on_event(Extended(100))
    if not registered.compares_trials:
        number = created[0].number
        searcher.on_event(Exited(number, "errored"))
        searcher.on_event(Reopened((number,)))
        assert not searcher.finished
    if not registered.compares_trials or registered.one_trial:
        assert all(action.goal is None for action in created), "trials that are not compared have no goal"


@pytest.mark.parametrize("name", METHODS)
def test_the_registry_says_whether_trials_are_copied(name: str) -> None:
    searcher = build(config(name), space_of(name), 7)
    trace = simulate(searcher, lambda create: Behaviour(lambda time: create.number + 1 / time, ends_at=65), slots=3)
    created = [action for actions in trace.decisions.values() for action in actions if isinstance(action, Create)]
    copied = any(action.source is not None for action in created)
    assert copied == SEARCH_METHODS[METHODS[name]["name"]].copies_trials


@pytest.mark.parametrize("name", STORAGE_TYPES)
def test_a_storage_type_is_complete(name: str) -> None:
    settings = load(STORAGE_TYPES[name].implementation)
    assert issubclass(settings, StorageSettings)
    assert not inspect.isabstract(settings), f"{settings.__name__} lacks {sorted(settings.__abstractmethods__)}"
    assert settings.__doc__
    assert name in STORAGES, "add an example of its block to STORAGES in this file"
    block = {"type": name, **STORAGES[name]}
    made = storage_model(name).model_validate(block)
    assert made.plain() == {**made.plain(), **block}
    assert build_from_config(block).name
    assert not list(settings.problems(block))
    if STORAGE_TYPES[name].uri_scheme is not None:
        assert {"bucket", "prefix"} <= settings.fields().keys()


@pytest.mark.parametrize("name", STORAGE_TYPES)
def test_workers_read_a_storage_type_without_pydantic(name: str) -> None:
    module, _, kind = STORAGE_TYPES[name].implementation.partition(":")
    program = (
        f"import sys; from {module} import {kind}; {kind}({ {'type': name, **STORAGES[name]}!r}); "
        "large = {'pydantic', 'obstore', 'determined.checkpoint_storage.cloud_access'} & sys.modules.keys(); "
        "assert not large, large"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_settings_can_be_derived_from_those_of_another_type() -> None:
    class OtherSettings(S3Settings):
        region: str
        zone: str = "a"

    assert OtherSettings.fields() == {**S3Settings.fields(), "region": True, "zone": False}
    assert OtherSettings({"type": "other", "bucket": "b", "region": "r"}).zone == "a"
    with pytest.raises(ValueError, match="needs bucket, region"):
        OtherSettings({"type": "other"})


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_is_complete(name: str) -> None:
    kind = load(SINKS[name].implementation)
    assert issubclass(kind.Settings, Block)
    assert not [field for field, info in kind.Settings.model_fields.items() if info.is_required()], (
        "DET_SINKS chooses a sink without settings, so none may be required"
    )
    sink: Sink = kind(kind.Settings())
    assert sink.name == name
    assert Sink in kind.__mro__, "derive it from Sink, so that mypy checks its methods"
    assert kind.Settings.__doc__


@pytest.mark.parametrize(
    ("files", "registered", "registry"),
    [
        ("searchers/methods/*.py", SEARCH_METHODS, "search_methods.py"),
        ("checkpoint_storage/types/*.py", STORAGE_TYPES, "storage_types.py"),
        ("sinks/*_sink.py", SINKS, "sinks.py"),
    ],
)
def test_every_file_of_a_plug_is_registered(files: str, registered: dict[str, Any], registry: str) -> None:
    package = ROOT / "src" / "determined"
    found = {path.stem for path in package.glob(files) if path.name != "__init__.py"}
    known = {entry.implementation.partition(":")[0].rpartition(".")[2] for entry in registered.values()}
    assert found == known, f"no line of config/registry/{registry} names {', '.join(sorted(found - known))}"


@pytest.mark.parametrize("name", SINKS)
def test_the_extra_of_a_sink_exists(name: str) -> None:
    package = SINKS[name].package
    extras = (ROOT / "pyproject.toml").read_text()
    assert package is None or re.search(rf"^{package} = \[", extras, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "start", "names"),
    [
        ("searchers.md", "|", SEARCH_METHODS),
        ("configuration.md", "| `searcher.name` |", SEARCH_METHODS),
        ("checkpoint-storage.md", "|", STORAGE_TYPES),
        ("configuration.md", "| `checkpoint_storage.type` |", STORAGE_TYPES),
        ("sinks.md", "|", SINKS),
        ("configuration.md", "| `sinks.", SINKS),
    ],
)
def test_the_documentation_names_each_in_a_table(page: str, start: str, names: dict[str, Any]) -> None:
    rows = [line for line in (ROOT / "docs" / page).read_text().splitlines() if line.startswith(start)]
    missing = [name for name in names if not any(re.search(rf"`[^`]*\b{name}\b[^`]*`", row) for row in rows)]
    assert not missing, f"docs/{page} names {', '.join(missing)} in no row that starts with {start}"


NAMES = {*SEARCH_METHODS, *STORAGE_TYPES, *SINKS, "adaptive", "adaptive_simple", "sync_halving"}
# Retired names are only translated in the first file. Names of Optuna's samplers and of formats may be the same words.
EXEMPT = {"config/reading/legacy_searchers.py", "searchers/optuna_source.py"}


def comparisons(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return where code compares something with a registered name, or chooses by one: `==`, `in`, `match`, dicts of
    names.
    """
    for node in ast.walk(tree):
        found: set[str] = set()
        if isinstance(node, ast.Compare):
            found = {name for part in (node.left, *node.comparators) for name in texts(part)}
        elif isinstance(node, ast.MatchValue):
            found = set(texts(node.value))
        elif isinstance(node, ast.Dict):
            keys = {name for key in node.keys if key is not None for name in texts(key)}
            found = keys if len(keys & NAMES) > 1 else set()
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, (ast.Tuple, ast.Set, ast.List)):
            listed = set(texts(node.value))
            found = listed if len(listed & NAMES) > 1 else set()
        for name in sorted(found & NAMES):
            yield getattr(node, "lineno", 0), name


def texts(node: ast.AST) -> Iterator[str]:
    """Return the texts that an expression is, or consists of."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.Set, ast.List)):
        for item in node.elts:
            yield from texts(item)


def test_no_code_compares_registered_names() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if (inside := path.relative_to(SOURCE).as_posix()) not in EXEMPT and not inside.startswith("config/registry/")
        for line, name in comparisons(ast.parse(path.read_text()))
    ]
    assert found == [], "ask for a property of the registered method, type or sink instead"


@pytest.mark.parametrize(
    "code",
    [
        'searcher.name == "pbt"',
        'searcher.name in ("random", "grid")',
        '"optuna" != name',
        'KINDS = {"s3": 1, "gcs": 2}',
        'FREE = ("single", "random")',
        'match name:\n    case "wandb":\n        pass',
    ],
)
def test_such_comparisons_are_found(code: str) -> None:
    assert list(comparisons(ast.parse(code)))


def test_retired_methods_become_registered_ones() -> None:
    for name in ("adaptive", "adaptive_simple", "sync_halving"):
        migrated, _, _ = retired_methods({"name": name, "max_trials": 3})
        assert migrated["name"] in SEARCH_METHODS
