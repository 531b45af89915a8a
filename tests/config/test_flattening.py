"""Nested maps with dotted names."""

from __future__ import annotations

from determined.config.flattening import flat


def test_nested_hyperparameters_have_dotted_names() -> None:
    assert flat({"lr": 1, "net": {"width": 8, "blocks": {"n": 2}, "empty": {}}}) == {
        "lr": 1,
        "net.width": 8,
        "net.blocks.n": 2,
        "net.empty": {},
    }
