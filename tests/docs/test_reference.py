"""The reference agrees with the sources, and every public name has a docstring."""

from __future__ import annotations

import inspect

from tools import reference, surface


def test_the_reference_is_up_to_date() -> None:
    written = {page.name: page.read_text() for page in reference.DIRECTORY.glob("*.md")}
    stale = [name for name, text in reference.pages().items() if written.pop(name, None) != text]
    assert not stale, f"docs/reference/ is out of date ({', '.join(stale)}): run `make reference` and commit the pages"
    assert not written, f"docs/reference/ has pages about nothing ({', '.join(written)}): run `make reference`"


def test_every_public_function_and_class_has_a_docstring() -> None:
    silent = []
    for module in surface.MODULES:
        for name, value in surface.public_names(module).items():
            described = {name: value} if inspect.isfunction(value) or inspect.isclass(value) else {}
            if inspect.isclass(value):
                found = surface.members(value).items()
                described |= {f"{name}.{key}": member for key, member in found if inspect.isfunction(member)}
            silent += [f"{module}.{path}" for path, one in described.items() if not inspect.getdoc(one)]
    assert silent == []
