"""Names of Determined's SDK that are deprecated, which work with a warning, or need a master, which raise an error."""

from __future__ import annotations

import importlib
import warnings
from typing import Any, NoReturn

_CLASSES = {
    "ExperimentReference": ("determined.experimental.experiment", "Experiment"),
    "TrialReference": ("determined.experimental.trial", "Trial"),
    "TrainingMetrics": ("determined.experimental.metrics", "TrialMetrics"),
    "ValidationMetrics": ("determined.experimental.metrics", "TrialMetrics"),
    "ExperimentOrderBy": ("determined.experimental.enums", "OrderBy"),
    "TrialOrderBy": ("determined.experimental.enums", "OrderBy"),
    "CheckpointOrderBy": ("determined.experimental.enums", "OrderBy"),
    "ModelOrderBy": ("determined.experimental.enums", "OrderBy"),
}

_USERS = "there are no users to administer: any user who can read the store may use it"
_WORKSPACES = "there are no workspaces: use another store for each"
_PROJECTS = "there are no projects: use labels"
_LOGIN = "there is no server to log in to"
_CLIENT = {
    **dict.fromkeys(("create_user", "get_user_by_id", "get_user_by_name", "list_users", "whoami"), _USERS),
    **dict.fromkeys(("get_workspace", "list_workspaces", "create_workspace", "delete_workspace"), _WORKSPACES),
    **dict.fromkeys(("list_oauth_clients", "add_oauth_client", "remove_oauth_client"), _LOGIN),
    **dict.fromkeys(("logout", "get_session_username"), _LOGIN),
}
_REASONS = {
    "determined.experimental.client": _CLIENT,
    "Determined": _CLIENT,
    "Experiment": {
        "move_to_project": _PROJECTS,
        "get_pachyderm_config": "there is no integration with Pachyderm: the configuration is in `config`",
    },
    "Model": {"move_to_workspace": _WORKSPACES},
}


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that a name is deprecated."""
    # The line of the program, above the property or function that calls this one.
    warnings.warn(f"{old} is deprecated: use {new}", FutureWarning, stacklevel=stacklevel)


def old_name(module: str, name: str) -> Any:
    """Return the class that a deprecated name refers to, with a warning; for the `__getattr__` of a module."""
    if name not in _CLASSES:
        raise_missing(module, name)
    place, new = _CLASSES[name]
    # One level more: this function is called by `__getattr__` of a module.
    warn_renamed(f"{module}.{name}", f"{module}.{new}", stacklevel=4)
    return getattr(importlib.import_module(place), new)


def raise_missing(owner: str, name: str) -> NoReturn:
    """Raise AttributeError with the reason why a name does not exist; for the `__getattr__` of a module or class."""
    kind = "module" if "." in owner else "object"
    reason = _REASONS.get(owner, {}).get(name)
    raise AttributeError(f"{kind} {owner!r} has no attribute {name!r}" + ("" if reason is None else f": {reason}"))
