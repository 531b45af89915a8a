"""The command `det doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.doctor.result import Result, missing


@click.command(cls=Command, action="check the installation")
@click.option(
    "--engine", metavar="ENGINE", help="Check this Ray cluster as well: ray or ray:HOST:PORT (default: DET_ENGINE)."
)
@with_json
def doctor(engine: str | None, form: Form) -> None:
    """Check the installation.

    Shows what works, what is missing and how to install it. The exit code is 1 if something required does not work.

    \b
    Example: det doctor
    """
    results = _results(engine)
    broken = any(result.is_broken for result in results)
    if form == "json":
        print_json({"ok": not broken, "checks": [asdict(result) for result in results]})
    else:
        for result in _extras_in_one_line(results):
            advice = f"; {result.advice}" if result.advice else ""
            click.echo(visible(f"{result.state:<8} {result.name:<19} {result.found}{advice}"))
    if broken:
        sys.exit(1)


def _extras_in_one_line(results: list[Result]) -> list[Result]:
    """Return the results with all missing extras combined into one, in the place of the first of them."""
    extras = [result for result in results if result.state == "missing" and result.name.startswith("extra ")]
    if len(extras) < 2:
        return results
    names = ", ".join(result.name.removeprefix("extra ") for result in extras)
    together = missing("extras", names, 'pip install "determined-pytorch[NAME]"')
    return [together if result is extras[0] else result for result in results if result not in extras[1:]]


def _results(engine: str | None) -> list[Result]:
    """Run all checks, also of the cluster that `engine` names, and return their results.

    torch is imported in a child process meanwhile, which takes seconds.
    """
    from determined.cli.doctor.cluster import check_cluster
    from determined.cli.doctor.data import check_data
    from determined.cli.doctor.machine import check_machine
    from determined.cli.doctor.packages import check_packages
    from determined.cli.doctor.python import check_python
    from determined.cli.doctor.torch import check_torch, start_torch

    # Started first: the import takes longer than all other checks together.
    with start_torch() as torch:
        others = [*check_machine(), *check_data(), *check_packages(), *check_cluster(engine)]
        return [*check_python(), *check_torch(torch), *others]
