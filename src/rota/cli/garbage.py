"""Python's search for garbage, as it suits a process that does the same small thing over and over."""

from __future__ import annotations

import gc

EVERY = 10_000  # objects more than before


def settle() -> None:
    """Called when everything has been imported.

    That never becomes garbage: to walk it in every full search would hold up all jobs or requests for a moment. And each of those
    leaves some hundred objects behind, hardly ever in a cycle: to look for one after every few takes a tenth of the processor's
    time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(EVERY, *gc.get_threshold()[1:])
