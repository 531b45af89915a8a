"""Plain data as YAML that is pleasant to read."""

from __future__ import annotations

import io
from typing import Any

# Line breaks of Unicode, which a text in plain style would not survive.
_ODD_BREAKS = ("\x85", "\u2028", "\u2029")


def dump_yaml(data: dict[str, Any]) -> str:
    """Block style, in the order of the data, without anchors."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
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
