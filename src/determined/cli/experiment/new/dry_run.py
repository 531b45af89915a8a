"""Show what `--dry-run` found: what an experiment would do and need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.cli.display.table import size
from determined.cli.preview_search import preview_plain, preview_text
from determined.sentences import counted, first_few

if TYPE_CHECKING:
    from determined.config.experiment import ExperimentConfig
    from determined.experiment.creation.plan import Plan


def plan_text(config: ExperimentConfig, plan: Plan) -> str:
    """Return a plan as text."""
    searcher = config.searcher
    entrypoint = config.entrypoint if isinstance(config.entrypoint, str) else list(config.entrypoint)
    better = "smaller" if searcher.smaller_is_better else "larger"
    free = "" if plan.free_bytes is None else f", where {size(plan.free_bytes)} are free"
    facts = [
        f"Experiment {config.name or '(generated name)'}: {entrypoint}",
        f"Search: {searcher.name} over {counted(plan.search.trials, 'trial')}, compared by {searcher.metric} "
        f"({better} is better)",
        _slots_text(plan),
        f"Checkpoints: at most {plan.checkpoints_kept} are kept in {plan.storage}{free}; "
        "their size is known when the first one is saved",
        f"Code: {counted(plan.code.files, 'file')} of {size(plan.code.size)}, {size(plan.code_bytes)} for all trials"
        + (f"; skipped: {first_few(plan.code.left_out)}" if plan.code.left_out else ""),
    ]
    if plan.hook_environment is not None:
        from determined.experiment.code.startup_hook import announcement

        facts.append(f"Startup hook: {announcement(plan.hook_environment)}")
    return "\n".join(facts) + f"\n\n{preview_text(config, plan.search)}\n\nNothing was created."


def _slots_text(plan: Plan) -> str:
    """Return the line about slots."""
    at_once = None if plan.at_once is None else counted(plan.at_once, "trial")
    if plan.slots is not None:
        return f"Slots: {plan.slots}, {plan.slots_per_trial} for each trial, so {at_once} at once"
    most = "" if at_once is None else f", at most {at_once} at once"
    return f"Slots: decided by the cluster, {plan.slots_per_trial} for each trial{most}"


def plan_plain(config: ExperimentConfig, plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    return {
        "search": preview_plain(config, plan.search),
        "slots": plan.slots,
        "slots_per_trial": plan.slots_per_trial,
        "trials_at_once": plan.at_once,
        "checkpoints_kept": plan.checkpoints_kept,
        "storage": plan.storage,
        "free_bytes": plan.free_bytes,
        "code_files": plan.code.files,
        "code_bytes": plan.code_bytes,
        "code_left_out": list(plan.code.left_out),
        "startup_hook_environment": plan.hook_environment,
    }
