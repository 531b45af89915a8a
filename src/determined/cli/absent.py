"""Explain commands of Determined's `det` that do not exist here: why, and what to use instead."""

from __future__ import annotations

_ADMINISTRATION = "there is no cluster to administer"
_ACCOUNTS = "there are no accounts: whoever can read the store may use it"
_PROJECTS = "workspace and project are fields of a configuration, as labels are"

_REASONS: dict[tuple[str, ...], str] = {
    ("notebook",): "start Jupyter as ever; `determined.experimental.client` works in it",
    ("shell",): "this shell will do",
    ("command",): "`det run COMMAND` runs a command and keeps what it writes",
    ("cmd",): "`det run COMMAND` runs a command and keeps what it writes",
    ("task",): "`det queue` and `det experiment list` show what runs",
    ("job",): "`det queue` shows who runs and who waits",
    ("template",): "put what is common into one file, and change it by --config",
    ("deploy",): "there is nothing to deploy: `pip install determined-pytorch` is all",
    **dict.fromkeys(
        [("resources",), ("resource-pool",), ("agent",), ("slot",)], "`det doctor` shows the slots of this machine"
    ),
    **dict.fromkeys([("master",), ("config-policies",)], _ADMINISTRATION),
    **dict.fromkeys([(name,) for name in ("user-group", "rbac", "token", "oauth", "sso")], _ACCOUNTS),
    **dict.fromkeys(
        [("user", name) for name in ("list", "create", "edit", "rename", "activate", "deactivate", "change-password")],
        _ACCOUNTS,
    ),
    ("user", "link-with-agent-user"): _ACCOUNTS,
    ("dev",): "there is no REST interface to call: use `--json` of any command, or determined.experimental.client",
    **dict.fromkeys([("workspace",), ("project",), ("experiment", "move"), ("model", "move")], _PROJECTS),
    ("experiment", "set", "weight"): "the queue goes by priority: `det experiment set priority ID N`",
    ("experiment", "set", "log-retention"): "logs stay as long as their experiment: `det experiment delete ID`",
    ("trial", "set"): "logs stay as long as their experiment: `det experiment delete ID`",
    **dict.fromkeys(
        [("tensorboard", name) for name in ("list", "open", "kill", "logs", "config")],
        "`det tensorboard start` runs TensorBoard itself, until Ctrl-C",
    ),
}


def why_absent(path: tuple[str, ...]) -> str | None:
    """Return why an old command does not exist, given the words typed after `det`; None if it is unknown."""
    return _REASONS.get(path)
