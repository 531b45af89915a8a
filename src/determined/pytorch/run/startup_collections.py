"""Makes garbage collections cheap between `pytorch.init()` and the first batch.

Building a trial imports much of torch: its optimizers import the compiler. The objects that this creates cause several
full collections, and each would walk through everything that was imported before, for a third of a second in total.
"""

from __future__ import annotations

import gc

_is_active = False
_program_has_frozen = False


def exempt_present_objects() -> None:
    """Exempt all objects that exist now from garbage collection, until `end_exemption` is called.

    Nothing is done if the program itself has frozen objects, because they could not be distinguished later.
    """
    global _is_active
    if not _is_active and not look_for_frozen_objects():
        gc.freeze()
        _is_active = True


def end_exemption() -> None:
    """Let the collector consider all objects again."""
    global _is_active
    if _is_active:
        gc.unfreeze()
        _is_active = False


def look_for_frozen_objects() -> bool:
    """Return whether the program has frozen objects.

    A positive answer is kept for the rest of the process and its forks, because Python walks through all frozen objects
    to count them: that takes 10 to 20 ms after an import of torch, and a process may have thousands of runs.
    """
    global _program_has_frozen
    if not _program_has_frozen:
        _program_has_frozen = gc.get_freeze_count() > 0
    return _program_has_frozen
