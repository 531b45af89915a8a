"""The first form of `core_v2` (releases 0.23 and 0.24): a run that a program opens itself, configured by a text.

from determined.experimental import Determined, unmanaged

client = Determined()
info = unmanaged.create_unmanaged_cluster_info(client, config_text="name: mine")
with unmanaged.init(unmanaged_info=info, client=client) as context:
    context.train.report_validation_metrics(steps_completed=1, metrics={"loss": 0.5})

The run gets its ids when `init` opens it: read them from `context.info`.
"""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from determined import core
from determined.config.reading.load import load_yaml, parse_yaml
from determined.config.stored import StoredConfig
from determined.core import DistributedContext, PreemptMode, TensorboardMode
from determined.experimental import core_v2
from determined.experimental.detached_config import Config
from determined.info import TRIAL, ClusterInfo, TrialInfo

if TYPE_CHECKING:
    from determined.experimental.determined import Determined

logger = logging.getLogger("determined.experimental")

__all__ = ["Config", "create_unmanaged_cluster_info", "init", "url_reverse_webui_exp_view"]


def create_unmanaged_cluster_info(
    client: Determined | None = None,
    config_text: str | None = None,
    config_path: str | os.PathLike[str] | None = None,
    hparams: dict[str, Any] | None = None,
) -> ClusterInfo:
    """Return the description of a run for `init(unmanaged_info=...)`; nothing is recorded yet."""
    if (config_text is None) == (config_path is None):
        raise ValueError("give exactly one of config_text and config_path")
    config = load_yaml(Path(config_path)) if config_path is not None else parse_yaml("config_text", config_text or "")
    values = hparams if hparams is not None else StoredConfig(config).hyperparameters
    return ClusterInfo(
        master_url="local",
        # Known only when the run is opened.
        cluster_id="",
        agent_id=socket.gethostname(),
        slot_ids=[0],
        task_id="",
        allocation_id="",
        session_token="",
        task_type=TRIAL,
        _trial_info=TrialInfo(trial_id=0, experiment_id=0, trial_seed=0, hparams=values, _config=config),
    )


def init(
    *,
    unmanaged_info: ClusterInfo | None = None,
    client: Determined | None = None,
    config: Config | None = None,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> core.Context:
    """Open a run: `with unmanaged.init(...) as context: ...`; see `core_v2.init_context`."""
    if unmanaged_info is not None and config is not None:
        raise ValueError("give either unmanaged_info or config, not both")
    return core_v2.init_context(
        config=config if unmanaged_info is None else _config_of(unmanaged_info),
        client=client,
        distributed=distributed,
        checkpoint_storage=checkpoint_storage,
        preempt_mode=preempt_mode,
        tensorboard_mode=tensorboard_mode,
    )


def url_reverse_webui_exp_view(client: Determined, exp_id: int) -> str:
    """Return the terminal command that shows an experiment; the page of `det ui` has no fixed address."""
    return f"det experiment describe {exp_id}"


def _config_of(info: ClusterInfo) -> Config:
    """Return the configuration of a run; warn about fields without effect."""
    known = {field.name for field in fields(Config)}
    config = info.trial._config
    # Ignoring these silently would hide a mistake.
    unused = [name for name in config if name not in {*known, "hyperparameters"}]
    if unused:
        logger.warning(
            "the configuration fields %s have no effect on a run that the program opens itself", ", ".join(unused)
        )
    given = {name: value for name, value in config.items() if name in known}
    return Config(**given | {"hparams": info.trial.hparams})


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: use init(unmanaged_info=...) here, or "
        "determined.experimental.core_v2"
    )
