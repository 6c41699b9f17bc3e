"""How hosts are doing: how many calls each has open, and whether one has failed so often that it is left alone for a while."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
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


class Place:
    """Counts a call as open; when a host's rest is over, it is the one that tries it."""

    __slots__ = ("_host", "_probes")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._probes = bool(host.open_until)

    def __enter__(self) -> None:
        host = self._host
        host.open += 1
        host.probing = host.probing or self._probes

    def __exit__(self, *_: object) -> None:
        host = self._host
        host.open -= 1
        if self._probes:
            host.probing = False
        host.free.set()


class Hosts:
    """All hosts that are called from here."""

    def __init__(self, *, per_host: int, failures: int, rest_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_host = per_host
        self._most_failures = failures
        self._rest_s = rest_s
        self._clock = clock
        self._hosts: OrderedDict[tuple[str, int], Host] = OrderedDict()

    def get(self, name: str, port: int) -> Host:
        """A host by its name and port."""
        key = name, port
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = Host()
            self._forget()
        self._hosts.move_to_end(key)
        return host

    def _forget(self) -> None:
        """Forgets those that were not called for longest; a busy one, or the newest, never."""
        for key in list(self._hosts)[: max(len(self._hosts) - MAX_HOSTS, 0)]:
            if not self._hosts[key].open and not self._hosts[key].waiting:
                del self._hosts[key]

    def rest_s(self, host: Host) -> float | None:
        """How long a host is to be left alone; None when it may be called. Once its rest is over, one call tries it."""
        if not host.open_until:
            return None
        left = host.open_until - self._clock()
        if left <= 0 and not host.probing:
            return None
        # Not all at once.
        return max(left, 1.0) + random.uniform(0, self._rest_s / 10)

    def is_full(self, host: Host) -> bool:
        """Whether a call has to wait for a place."""
        return host.open >= self._per_host

    async def wait(self, host: Host) -> bool:
        """Waits a moment for a place; says whether there is one."""
        host.waiting += 1
        try:
            async with asyncio.timeout(PLACE_WITHIN_S):
                while self.is_full(host):
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
