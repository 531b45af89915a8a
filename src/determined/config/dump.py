"""Writes plain data as readable YAML."""

from __future__ import annotations

import io
from typing import Any

# Unicode line breaks, which YAML preserves only in quoted style.
_ODD_BREAKS = ("\x85", "\u2028", "\u2029")


def dump_yaml(data: dict[str, Any]) -> str:
    """Return data as YAML in block style, in the order of the data and without anchors."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        # Anchors would be written for values that only happen to be the same object.
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_text(self, data: str) -> Any:
            style = '"' if any(odd in data for odd in _ODD_BREAKS) else None
            return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Representer.add_representer(str, Representer.represent_text)
    dumper = YAML()
    dumper.Representer = Representer
    dumper.default_flow_style = False
    dumper.allow_unicode = True
    dumper.width = 120
    dumper.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    dumper.dump(data, text)
    return text.getvalue()
