"""The root of `det`."""

from __future__ import annotations

from click.testing import CliRunner

import determined
from determined.cli.main import main


def test_version() -> None:
    assert CliRunner().invoke(main, ["version"]).output == f"{determined.__version__}\n"
    assert determined.__version__ in CliRunner().invoke(main, ["--version"]).output


def test_help_lists_the_nouns() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "version  Show the version." in result.output


def test_an_unknown_noun_is_refused() -> None:
    result = CliRunner().invoke(main, ["nonsense"])
    assert result.exit_code == 2
    assert "nonsense" in result.output
