"""Makes garbage collections cheap between `pytorch.init()` and the first batch.

Building a trial imports much of torch: its optimizers import the compiler. The objects that this creates cause several
full collections, and each would walk through everything that was imported before, for a third of a second in total.
"""

from __future__ import annotations

import gc

_is_active = False


def exempt_present_objects() -> None:
    """Exempt all objects that exist now from garbage collection, until `end_exemption` is called.

    Nothing is done if the program itself has frozen objects, because they could not be distinguished later.
    """
    global _is_active
    if not _is_active and gc.get_freeze_count() == 0:
        gc.freeze()
        _is_active = True


def end_exemption() -> None:
    """Let the collector consider all objects again."""
    global _is_active
    if _is_active:
        gc.unfreeze()
        _is_active = False
