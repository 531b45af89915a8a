"""Plain data as YAML that is pleasant to read."""

from __future__ import annotations

import io
from typing import Any


def dump_yaml(data: dict[str, Any]) -> str:
    """Block style, in the order of the data, without anchors."""
    from ruamel.yaml import YAML

    dumper = YAML()
    dumper.default_flow_style = False
    dumper.allow_unicode = True
    dumper.width = 120
    dumper.indent(mapping=2, sequence=4, offset=2)
    dumper.representer.ignore_aliases = lambda *_: True
    text = io.StringIO()
    dumper.dump(data, text)
    return text.getvalue()
