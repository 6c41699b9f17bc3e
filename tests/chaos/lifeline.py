"""Keeps the processes of a run from outliving the harness, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

VARIABLE = "CHAOS_HARNESS"
_PR_SET_PDEATHSIG = 1


def variables() -> dict[str, str]:
    """Give what tells a child who the harness is."""
    return {VARIABLE: str(os.getpid())}


def end_with_harness() -> None:
    """Be killed with the harness, even while stopped: a pipe that is closed would not be seen then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    harness = os.environ.get(VARIABLE)  # none when somebody tries it by hand
    if harness and os.getppid() != int(harness):
        sys.exit("the harness is gone")
