"""Runs one PostgreSQL server and ends it when the process that asked for it is gone.

A script of its own, on the standard library alone: it starts in milliseconds, and stays while its owner may be killed.
The owner writes `fast` or `immediate`, a line, to its standard input to stop the server; the end of input: it died.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

SIGNALS = {b"fast": signal.SIGINT, b"immediate": signal.SIGQUIT}
PATIENCE_S = 15.0  # for the fast stop of a server whose owner is gone; then the immediate one, which loses nothing
PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def watch(owner: int, uid: int, command: list[str]) -> int:
    """Start the server, print its process id, and stay until it has ended."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *ENDING):
        signal.signal(number, lambda *_: None)  # the number arrives through the pipe
    user: dict[str, Any] = {} if uid < 0 else {"user": uid, "group": uid, "extra_groups": []}
    log = sys.stderr.fileno()
    server: subprocess.Popen[bytes] = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, preexec_fn=_ending_with(os.getpid()), **user
    )
    print(server.pid, flush=True)
    # The pipe says at once that the owner is gone, unless a process that the owner forked still holds its other end.
    orders = [sys.stdin.fileno()]
    deadline = None
    while server.poll() is None:
        ready, _, _ = select.select([woken, *orders], [], [], 1.0)
        alone = os.getppid() != owner
        if woken in ready:
            alone |= not set(ENDING).isdisjoint(os.read(woken, 64))
        if orders and orders[0] in ready:
            said = os.read(orders[0], 64)
            alone |= not said
            for order in said.split():
                server.send_signal(SIGNALS[order])
        if alone and deadline is None:
            orders.clear()
            deadline = time.monotonic() + PATIENCE_S
            server.send_signal(signal.SIGINT)
        elif deadline is not None and time.monotonic() > deadline:
            server.send_signal(signal.SIGQUIT)
    return server.returncode


def _ending_with(parent: int) -> Callable[[], None] | None:
    """Give what the new process does before it becomes the server: ask the kernel to stop it should we be killed."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGINT))
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent


if __name__ == "__main__":
    sys.exit(abs(watch(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])))
