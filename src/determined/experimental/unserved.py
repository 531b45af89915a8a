"""Names of Determined's SDK that need a master: accessing one raises an AttributeError with the reason."""

from __future__ import annotations

from typing import NoReturn

_USERS = "there are no users to administer: whoever can read the store may use it"
_WORKSPACES = "there are no workspaces: use another store for each"
_PROJECTS = "there are no projects: use labels"
_LOGIN = "there is nobody to log in to"

_OF_THE_WAY_IN = {
    **dict.fromkeys(("create_user", "get_user_by_id", "get_user_by_name", "list_users", "whoami"), _USERS),
    **dict.fromkeys(("get_workspace", "list_workspaces", "create_workspace", "delete_workspace"), _WORKSPACES),
    **dict.fromkeys(("list_oauth_clients", "add_oauth_client", "remove_oauth_client"), _LOGIN),
    **dict.fromkeys(("logout", "get_session_username"), _LOGIN),
}
_REASONS = {
    "determined.experimental.client": _OF_THE_WAY_IN,
    "Determined": _OF_THE_WAY_IN,
    "Experiment": {
        "move_to_project": _PROJECTS,
        "get_pachyderm_config": "there is no integration with Pachyderm: the configuration is in `config`",
    },
    "Model": {"move_to_workspace": _WORKSPACES},
}


def refuse(owner: str, name: str) -> NoReturn:
    """Raise AttributeError with the reason why a name does not exist; for the `__getattr__` of a module or class."""
    kind = "module" if "." in owner else "object"
    reason = _REASONS.get(owner, {}).get(name)
    raise AttributeError(f"{kind} {owner!r} has no attribute {name!r}" + ("" if reason is None else f": {reason}"))
