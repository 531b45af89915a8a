"""Sphinx settings with which `test_sphinx.py` builds documents about this package."""

from __future__ import annotations

from typing import Any

from sphinx import addnodes
from sphinx.util import logging

project = "determined-pytorch"
# Docstrings list arguments under "Args:", which napoleon turns into a field list.
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".rst": "restructuredtext", ".txt": "restructuredtext"}

logger = logging.getLogger(__name__)


def _report(app: Any, env: Any, node: Any, content: Any) -> None:
    """Warn about a reference in a text to a public name of this package that no document describes.

    Sphinx' own `nitpicky` would also warn about every type in a signature, including those of other packages.
    """
    target = str(node["reftarget"])
    is_private = any(part.startswith("_") for part in target.split("."))
    if target.startswith("determined.") and not is_private and not _is_in_signature(node):
        logger.warning("unresolved name: %s", target, location=node)


def _is_in_signature(node: Any) -> bool:
    while node is not None:
        if isinstance(node, addnodes.desc_signature):
            return True
        node = node.parent
    return False


def setup(app: Any) -> None:
    """Register the check of references; Sphinx calls this function."""
    app.connect("missing-reference", _report)
