"""Blocks that only a cluster's master could serve.

They are validated, so that files written for a cluster are accepted.
"""

from __future__ import annotations

from typing import Annotated, Any

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.validators import Flag, PositiveCount, Text


class RetentionPolicy(Block):
    """The number of days that logs are kept; -1 means forever."""

    # The limits of Determined's schema.
    log_retention_days: Annotated[int, validators.integer(-1, 32767)] | None = None


class Webhooks(Block):
    """The webhooks that are notified of events."""

    webhook_id: tuple[PositiveCount, ...] = ()
    webhook_name: tuple[Text, ...] = ()
    exclude: Flag = False


class Pachyderm(Block):
    """The Pachyderm source of the data."""

    dataset: dict[str, Any] | None = None
    pachd: dict[str, Any] | None = None
    proxy: dict[str, Any] | None = None


class Integrations(Block):
    """Integrations with other services."""

    webhooks: Webhooks | None = None
    pachyderm: Pachyderm | None = None


class Slurm(Block):
    """Options for Slurm."""

    gpu_type: Text | None = None
    sbatch_args: tuple[Text, ...] | None = None
    slots_per_node: PositiveCount | None = None


class Pbs(Block):
    """Options for PBS."""

    pbsbatch_args: tuple[Text, ...] | None = None
    slots_per_node: PositiveCount | None = None


class Kerberos(Block):
    """The Kerberos block, which is not used."""

    config_file: Text | None = None


class Security(Block):
    """The security block, which is not used."""

    kerberos: Kerberos | None = None
