"""How hosts are doing: how many calls each has open, and whether one has failed so often that it is left alone for a while."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from time import monotonic

MAX_HOSTS = 10_000  # that are remembered; those without open calls that were not called for longest are forgotten first
PLACE_WITHIN_S = 1.0  # a call that finds no place for so long gives its slot to others


class Host:
    """One host, as this process sees it."""

    __slots__ = ("failures", "free", "open", "open_until", "probing", "waiting")

    def __init__(self) -> None:
        self.open = 0  # calls
        self.waiting = 0  # calls that wait for a place
        self.failures = 0  # in a row
        self.open_until = 0.0  # of the breaker, by this process's clock; 0: closed
        self.probing = False
        self.free = asyncio.Event()


class Hosts:
    """All hosts that are called from here."""

    def __init__(self, *, per_host: int, failures: int, rest_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_host = per_host
        self._most_failures = failures
        self._rest_s = rest_s
        self._clock = clock
        self._hosts: OrderedDict[str, Host] = OrderedDict()

    def get(self, name: str) -> Host:
        """A host by its name and port."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host()
            self._forget()
        self._hosts.move_to_end(name)
        return host

    def _forget(self) -> None:
        """Forgets those that were not called for longest; a busy one, or the newest, never."""
        for name in list(self._hosts)[: max(len(self._hosts) - MAX_HOSTS, 0)]:
            if not self._hosts[name].open and not self._hosts[name].waiting:
                del self._hosts[name]

    def rest_s(self, host: Host) -> float | None:
        """How long a host is to be left alone; None when it may be called. Once its rest is over, one call tries it."""
        if not host.open_until:
            return None
        left = host.open_until - self._clock()
        if left <= 0 and not host.probing:
            return None
        # Not all at once.
        return max(left, 1.0) + random.uniform(0, self._rest_s / 10)

    @contextlib.contextmanager
    def place(self, host: Host) -> Iterator[None]:
        """Counts a call as open; when a host's rest is over, it is the one that tries it."""
        host.open += 1
        probes = bool(host.open_until)
        host.probing = host.probing or probes
        try:
            yield
        finally:
            host.open -= 1
            if probes:
                host.probing = False
            host.free.set()

    async def wait(self, host: Host) -> bool:
        """Waits a moment for a place; says whether there is one."""
        if host.open < self._per_host:
            return True
        host.waiting += 1
        try:
            async with asyncio.timeout(PLACE_WITHIN_S):
                while host.open >= self._per_host:
                    host.free.clear()
                    await host.free.wait()
        except TimeoutError:
            return False
        finally:
            host.waiting -= 1
        return True

    def succeeded(self, host: Host) -> None:
        """It has answered."""
        host.failures, host.open_until = 0, 0.0

    def failed(self, host: Host) -> None:
        """It has not answered, or said that it is broken."""
        host.failures += 1
        if host.failures >= self._most_failures:
            host.open_until = self._clock() + self._rest_s
