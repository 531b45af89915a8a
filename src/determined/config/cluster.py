"""Blocks that only a cluster's master could serve: read and checked, so that a file of one works here as well."""

from __future__ import annotations

from typing import Annotated, Any

from determined.config import kinds
from determined.config.block import Block
from determined.config.kinds import Flag, PositiveCount, Text


class RetentionPolicy(Block):
    """How many days logs are kept; -1 for ever."""

    log_retention_days: Annotated[int, kinds.whole(-1, 32767)] | None = None


class Webhooks(Block):
    """Who is told of what happens."""

    webhook_id: tuple[PositiveCount, ...] = ()
    webhook_name: tuple[Text, ...] = ()
    exclude: Flag = False


class Pachyderm(Block):
    """Where the data came from."""

    dataset: dict[str, Any] | None = None
    pachd: dict[str, Any] | None = None
    proxy: dict[str, Any] | None = None


class Integrations(Block):
    """Other services."""

    webhooks: Webhooks | None = None
    pachyderm: Pachyderm | None = None


class Slurm(Block):
    """Options of Slurm."""

    gpu_type: Text | None = None
    sbatch_args: tuple[Text, ...] | None = None
    slots_per_node: PositiveCount | None = None


class Pbs(Block):
    """Options of PBS."""

    pbsbatch_args: tuple[Text, ...] | None = None
    slots_per_node: PositiveCount | None = None


class Kerberos(Block):
    """A field that nothing reads."""

    config_file: Text | None = None


class Security(Block):
    """A block that nothing reads."""

    kerberos: Kerberos | None = None
