"""`TreeDecoder`: the walk through a tree of plain data, which decodes containers and passes tags to handlers."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from determined.errors import InvalidCheckpointException
from determined.pytorch.checkpoint.state_codec import classes, paths
from determined.pytorch.checkpoint.state_codec.paths import MISSING, Lazy, OneOf, Step, child, first_of
from determined.pytorch.checkpoint.state_codec.tags import DEEPEST, KIND

SKIPPED: Any = object()  # stands for a function that this program does not have; it is left out
_TREES = (dict, list, tuple, set, collections.OrderedDict, collections.Counter)
_COSTLIEST_KEY = 10_000  # parts of nested tuples; hashing visits a part as often as it occurs


class WrongData(Exception):
    """Raised with a description of what is wrong with a tag."""


class TreeDecoder:
    """Walks through the data of one checkpoint, whose name is in messages. `handlers` decode tags, by their kind."""

    def __init__(self, checkpoint: str, handlers: dict[str, Callable[[dict[Any, Any], Any], Any]]) -> None:
        self._checkpoint = checkpoint
        self._handlers = handlers
        self._path: list[Step] = []
        self._done: dict[int, Any] = {}
        self._members: dict[tuple[int, Step], tuple[Any, Any]] = {}

    def decode(self, tree: Any, template: Any, *path: Step) -> Any:
        """Return the value that was encoded; `template` is the program's value in its place, or a `Lazy` one.

        Raises InvalidCheckpointException, naming the path, if the data is invalid or does not fit the program.
        """
        self._path = list(path)
        try:
            value = self._decode(tree, template)
        except WrongData as error:
            raise self._error(str(error)) from error.__cause__
        except RecursionError:
            raise self._error("it is nested too deeply") from None
        return None if value is SKIPPED else value

    def _error(self, why: str) -> InvalidCheckpointException:
        """Return an error that names the checkpoint and the current path."""
        return InvalidCheckpointException(
            f"checkpoint {self._checkpoint} cannot be resumed from: {paths.shown(self._path)}: {why}"
        )

    def _decode(self, tree: Any, template: Any) -> Any:
        """Decode a value; data without tags is copied, with the values inside decoded."""
        kind = type(tree)
        if kind not in _TREES:
            return tree
        # By id: the file has each shared value once, and the decoded program must share it as well.
        if id(tree) in self._done:
            return self._done[id(tree)][1]
        # A few levels more than the encoder allows, because tags add some. A hostile file could exhaust the stack.
        if len(self._path) > DEEPEST + 10:
            raise WrongData(f"it is nested deeper than {DEEPEST} levels")
        if kind is list:
            return self._fill_list(self._keep(tree, []), tree, template)
        if kind is tuple:
            return self._keep(tree, tuple(self._items(tree, template)))
        # Plain sets contain only plain values, so there is nothing to decode.
        if kind is set:
            return tree
        if KIND in tree:
            return self._tag(tree, template)
        return self._fill_dict(self._keep(tree, kind()), tree, template)

    def _keep(self, tree: Any, value: Any) -> Any:
        """Remember the value of decoded data and return it.

        A container is remembered before its parts are decoded, because it may contain itself. In a cycle through a
        tuple, the value that was decoded meanwhile is returned.
        """
        # The tree is stored with its value: as long as it lives, its id is not reused.
        return self._done.setdefault(id(tree), (tree, value))[1]

    def _decode_below(self, step: Step, tree: Any, template: Any) -> Any:
        """Decode a value one step below the current path."""
        self._path.append(step)
        value = self._decode(tree, child(template, step) if type(tree) in _TREES else MISSING)
        self._path.pop()  # not in a finally: after an exception the path is part of the message
        return value

    def _item(self, number: int, tree: Any, template: Any) -> Any:
        """Decode an item of a sequence; a function that this program lacks becomes None."""
        value = self._decode_below(("item", number), tree, template)
        return None if value is SKIPPED else value

    def _items(self, trees: Any, template: Any) -> list[Any]:
        """Decode the items of a sequence; `template` is the sequence that the program has in its place."""
        return [self._item(number, tree, template) for number, tree in enumerate(trees)]

    def _fill_list(self, value: list[Any], tree: list[Any], template: Any) -> list[Any]:
        """Append the decoded items of `tree` one by one, because items may refer to the unfinished list."""
        for number, one in enumerate(tree):
            value.append(self._item(number, one, template))
        return value

    def _fill_dict(self, value: Any, tree: Any, template: Any) -> Any:
        """Add the decoded items of `tree` to `value`, and `_metadata` (versions of layers) of a model's state dict."""
        for key, one in tree.items():
            decoded = self._decode_below(("item", key), one, template)
            if decoded is not SKIPPED:
                value[key] = decoded
        if hasattr(tree, "_metadata"):
            value._metadata = tree._metadata
        return value

    def _tag(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a tagged dict with the handler for its kind."""
        # Only now, because most states have no tags, and a template may call the program's state_dict().
        if isinstance(template, Lazy):
            template = template.get()
        if isinstance(template, OneOf):
            template = template.named(_class_name(tag))
            # The parts of these are looked up in all of the values. The others depend on the class only.
            if tag[KIND] not in ("container", "object"):
                template = first_of(template)
        kind = tag[KIND]
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is None:
            raise WrongData(f"it holds data of an unknown kind, {kind!r:.80}")
        try:
            return handler(tag, template)
        except (WrongData, InvalidCheckpointException, RecursionError):
            raise
        except Exception as error:  # invalid data can raise any exception
            raise WrongData(
                f"it holds wrong data for a value of kind {kind!r}: {type(error).__name__}: {error}"
            ) from error

    def _elements(self, trees: list[Any], template: Any) -> list[Any]:
        """Decode the elements of a set."""
        return [self._key(tree, template) for tree in trees]

    def _key(self, tree: Any, template: Any) -> Any:
        """Return a decoded key of a dict or element of a set, which must be complete before it is hashed."""
        step = ("element", _class_name(tree))
        self._path.append(step)
        key = self._decode(tree, self._member(template, step) if type(tree) in _TREES else MISSING)
        self._path.pop()
        if key is SKIPPED:
            return None
        _check_cost(key)
        return key

    def _member(self, template: Any, step: Step) -> Any:
        """Return the template of keys of one class, which is found once and not for each of thousands of keys."""
        found = self._members.get((id(template), step))
        if found is None:
            # The template is stored, too: as long as it lives, its id is not reused.
            found = self._members[id(template), step] = (template, child(template, step))
        return found[1]


def of_type(kind: type, value: Any) -> Any:
    """Return `value` if it is exactly of this type, else raise."""
    if type(value) is not kind:
        raise WrongData(f"it holds a {type(value).__name__} where a {kind.__name__} is expected")
    return value


def _class_name(tree: Any) -> str:
    """Return the name of the class that `tree` will be decoded to, by which its template is found."""
    if isinstance(tree, dict) and isinstance(tree.get("type"), str):
        return str(tree["type"])
    if isinstance(tree, dict) and tree.get(KIND) == "container" and tree.get("base") in classes.BASES:
        return classes.name_of(classes.BASES[tree["base"]])
    return classes.name_of(type(tree))


def _check_cost(key: Any) -> None:
    """Raise for keys that take too long to hash: nested tuples that share their parts."""
    waiting, cost = [key], 0
    while waiting:
        value = waiting.pop()
        cost += 1
        if cost > _COSTLIEST_KEY:
            # Without this limit a few bytes of nested, shared tuples could keep the process busy without end.
            raise WrongData("a key or element is too large")
        if isinstance(value, (tuple, frozenset)):
            waiting.extend(value)
