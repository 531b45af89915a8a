"""Warnings about settings that are valid but probably not intended."""

from __future__ import annotations

from collections.abc import Iterator

from determined.config.blocks.experiment import ExperimentConfig
from determined.config.plain_data import dotted
from determined.config.registry.search_methods import search_method
from determined.config.space import is_range, leaves


def doubts(config: ExperimentConfig) -> list[str]:
    """Return a warning for each implausible setting."""
    return [*_log_bounds(config), *_ranges_of_one_trial(config), *_two_sources(config)]


def _log_bounds(config: ExperimentConfig) -> Iterator[str]:
    """Warn about bounds of a log range that look like values although they are exponents."""
    for path, leaf in leaves(config.hyperparameters):
        if leaf["type"] != "log" or leaf["base"] < 2:
            continue
        low, high, base = leaf["minval"], leaf["maxval"], leaf["base"]
        # Bounds between 0 and 1 are typical for values such as learning rates, and useless as exponents.
        if low > 0 and high <= 1:
            yield (
                f"{dotted(path)}: the bounds of a log are exponents, so its values lie between {base**low:g} and "
                f"{base**high:g}; for values between {low:g} and {high:g} write "
                f"{{type: loguniform, min: {low:g}, max: {high:g}}}."
            )


def _ranges_of_one_trial(config: ExperimentConfig) -> Iterator[str]:
    """Warn about ranges in a search with a single trial."""
    if not search_method(config.searcher.name).one_trial:
        return
    drawn = [dotted(path) for path, leaf in leaves(config.hyperparameters) if is_range(leaf)]
    if drawn:
        yield f"The searcher {config.searcher.name} runs one trial: {', '.join(drawn)} will be drawn once, at random."


def _two_sources(config: ExperimentConfig) -> Iterator[str]:
    """Warn if both a source trial and a source checkpoint are given."""
    searcher = config.searcher
    if searcher.source_trial_id is not None and searcher.source_checkpoint_uuid is not None:
        yield "searcher.source_checkpoint_uuid is not used, as searcher.source_trial_id is given."
