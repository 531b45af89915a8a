"""The part of the `searcher` block that all search methods share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, get_args

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.length import Length
from determined.config.registry.implementation import load
from determined.config.registry.search_methods import SEARCH_METHODS
from determined.config.validators import FilledText, Flag, PositiveCount
from determined.errors import DeterminedError, Mistake

Divisor = Annotated[float, validators.number(above=1)]
Fraction = Annotated[float, validators.number(0, 1)]
TrainingLength = Annotated[Length, validators.length(1, bare=True)]

# The default for max_concurrent_trials. The slots of the machine are usually the tighter limit; 0 means no limit.
CONCURRENT_TRIALS = 16


class SearcherBlock(Block):
    """The fields that all search methods share, with hooks by which a method derives and checks its own fields."""

    # Whether the fields max_time and time_metric are another form of max_length, and are replaced together with it.
    time_follows_length: ClassVar[bool] = True

    name: str
    metric: FilledText
    smaller_is_better: Flag = True
    source_trial_id: PositiveCount | None = None
    source_checkpoint_uuid: FilledText | None = None
    max_length: TrainingLength | None = None

    @classmethod
    def derived(cls, block: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields that follow from others of an unvalidated block, for those that it does not set."""
        return {}

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[Mistake]:
        """Yield what is wrong between several fields of an unvalidated configuration with this method."""
        yield from ()


def searcher_models() -> dict[str, type[SearcherBlock]]:
    """Return the model of every registered search method, by name."""
    # Models are loaded here, when a configuration is validated; commands that only read need none.
    return {name: _load_model(name) for name in SEARCH_METHODS}


def searcher_model(name: Any) -> type[SearcherBlock] | None:
    """Return the model of a search method, or None for an unknown name."""
    return _load_model(name) if isinstance(name, str) and name in SEARCH_METHODS else None


def _load_model(name: str) -> type[SearcherBlock]:
    """Return the model of a registered search method; raise DeterminedError if it has another name."""
    path = SEARCH_METHODS[name].implementation
    model: type[SearcherBlock] = load(path)
    accepted: tuple[str, ...] = get_args(model.model_fields["name"].annotation)
    # With another name, pydantic would reject every configuration of the method by its registered name.
    if accepted != (name,):
        found = f"Literal[{', '.join(map(repr, accepted))}]" if accepted else "no Literal"
        raise DeterminedError(
            f"the search method {name!r} in determined/config/registry/search_methods.py is {path}, whose field `name` "
            f"is {found}: it must be Literal[{name!r}]"
        )
    return model
