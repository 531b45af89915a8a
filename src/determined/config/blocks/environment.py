"""The `environment` and `bind_mounts` blocks: environment variables of trials, and container settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, PlainValidator, Tag

from determined.config import validators
from determined.config.blocks.block import Block
from determined.config.validators import AbsolutePath, Flag, Text

DeviceKind = Literal["cpu", "cuda", "rocm"]
Variable = Annotated[str, validators.matching(r"[^=\s][^=]*(=[\s\S]*)?", "a variable such as NAME=VALUE")]


class VariablesByDevice(Block):
    """Environment variables by kind of device."""

    cpu: tuple[Variable, ...] = ()
    cuda: tuple[Variable, ...] = ()
    rocm: tuple[Variable, ...] = ()


def _list_or_map(value: Any) -> str:
    """Return the tag of the form in which variables are given."""
    return "\0map" if isinstance(value, (dict, VariablesByDevice)) else "\0list"


Variables = Annotated[
    Annotated[tuple[Variable, ...], Tag("\0list")] | Annotated[VariablesByDevice, Tag("\0map")],
    Discriminator(_list_or_map),
]


class Image(Block):
    """The container images by kind of device."""

    cpu: Text | None = None
    cuda: Text | None = None
    rocm: Text | None = None


def _for_all_devices(value: Any) -> Any:
    """Return an image for every kind of device if a single one is given."""
    # One name for all devices is the short form of Determined.
    return dict.fromkeys(("cpu", "cuda", "rocm"), value) if isinstance(value, str) else value


class RegistryAuth(Block):
    """The credentials for a container registry; the fields of Docker's own configuration."""

    username: Text | None = None
    password: Text | None = None
    serveraddress: Text | None = None
    email: Text | None = None
    auth: Text | None = None
    identitytoken: Text | None = None
    registrytoken: Text | None = None


class ProxyPort(Block):
    """A port of the task that a cluster would expose."""

    proxy_port: Annotated[int, validators.integer(1, 65535)]
    proxy_tcp: Flag = False
    unauthenticated: Flag = False


class Environment(Block):
    """The `environment` block. `environment_variables` are set in the processes of trials."""

    environment_variables: Variables = ()
    image: Annotated[Image, BeforeValidator(_for_all_devices)] | None = None
    force_pull_image: Flag | None = None
    registry_auth: RegistryAuth | None = None
    ports: dict[str, Annotated[int, validators.integer(1, 65535)]] | None = None
    proxy_ports: tuple[ProxyPort, ...] | None = None
    add_capabilities: tuple[Text, ...] | None = None
    drop_capabilities: tuple[Text, ...] | None = None
    pod_spec: dict[str, Any] | None = None

    def variables(self, device: DeviceKind) -> tuple[str, ...]:
        """Return the variables for trials on this kind of device, each `NAME=VALUE` or just `NAME`."""
        given = self.environment_variables
        return getattr(given, device) if isinstance(given, VariablesByDevice) else given


def _mount_point(value: Any) -> str:
    """Return a mount point; raise an error for a path that cannot be one."""
    if not isinstance(value, str) or value in ("", "."):
        raise validators.refusal("a path, and not '.'")
    return value


class BindMount(Block):
    """A directory of the host that a container would mount."""

    host_path: AbsolutePath
    container_path: Annotated[str, PlainValidator(_mount_point)]
    read_only: Flag = False
    propagation: Text = "rprivate"
