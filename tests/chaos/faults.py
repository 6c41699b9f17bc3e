"""The faults: a schedule made from the seed, and the hand that carries it out."""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import psycopg
from tests.chaos.crew import Crew
from tests.chaos.history import Recorder
from tests.chaos.proxy import Proxy

from rota.db.embedded import EmbeddedPostgres

AGAIN_S = 0.7  # after a fault that found nobody to hit


@dataclass(frozen=True, slots=True)
class Dose:
    """How much of everything."""

    jobs: int
    poison: int
    seconds: float
    kills: int
    pauses: int
    replacements: int
    restarts: int
    terminations: int
    cuts: int
    traps: int
    crashes: int
    drain_s: float
    limits: bool = True  # whether there is enough of everything to judge how fast it was, and that it had any effect


FULL = Dose(
    jobs=20_500, poison=24, seconds=1200, kills=105, pauses=14, replacements=20, restarts=22, terminations=220, cuts=200,
    traps=300, crashes=4, drain_s=90,
)  # fmt: skip
SHORT = Dose(
    jobs=900, poison=3, seconds=45, kills=7, pauses=2, replacements=2, restarts=1, terminations=12, cuts=10, traps=20, crashes=1,
    drain_s=40, limits=False,
)  # fmt: skip


class Faults:
    """Does what is due; a fault that cannot be done now is done a little later."""

    def __init__(
        self, dose: Dose, rng: random.Random, crew: Crew, proxy: Proxy, postgres: EmbeddedPostgres, recorder: Recorder
    ) -> None:
        self.done: Counter[str] = Counter()
        self._random = rng
        self._postgres = postgres
        self._dsn = postgres.dsn()  # not through the proxy
        self._recorder = recorder
        self._disrupting: threading.Thread | None = None
        self._failure: BaseException | None = None
        hands: dict[str, tuple[int, Callable[[], bool | None]]] = {
            "SIGKILL": (dose.kills, crew.kill),
            "SIGSTOP past the lease": (dose.pauses, crew.pause),
            "SIGTERM and replaced": (dose.replacements, crew.replace),
            "immediate restarts of the server": (dose.restarts, partial(self._disrupt, self._restart)),
            "backends killed by SIGKILL": (dose.crashes, partial(self._disrupt, self._crash)),
            "backends terminated": (dose.terminations, self._terminate),
            "cut": (dose.cuts, proxy.cut),  # which counts for itself
            "trap": (dose.traps, proxy.set_trap),
        }
        self._hands = {name: hand for name, (_, hand) in hands.items()}
        self._queue: list[tuple[float, str]] = []
        for name, (count, _) in hands.items():
            # Spread evenly with a jitter, so that no kind comes all at once.
            step = dose.seconds / max(count, 1)
            self._queue += [((at + rng.random()) * step, name) for at in range(count)]
        heapq.heapify(self._queue)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._disrupting is not None:
            self._disrupting.join()

    @property
    def pending(self) -> bool:
        return bool(self._queue) or (self._disrupting is not None and self._disrupting.is_alive())

    def inject(self, elapsed_s: float) -> None:
        """Do everything that is due by now."""
        if self._failure is not None:
            raise self._failure
        while self._queue and self._queue[0][0] <= elapsed_s:
            _, name = heapq.heappop(self._queue)
            done = self._hands[name]()
            if done:
                self.done[name] += 1
            elif done is False:
                heapq.heappush(self._queue, (elapsed_s + AGAIN_S, name))

    def _disrupt(self, how: Callable[[], None]) -> bool:
        """Take the server away in a thread, so that the other faults go on meanwhile."""
        if self._disrupting is not None and self._disrupting.is_alive():
            return False
        self._disrupting = threading.Thread(target=self._disrupt_now, args=[how], name="chaos-server")
        self._disrupting.start()
        return True

    def _disrupt_now(self, how: Callable[[], None]) -> None:
        try:
            self._recorder.write("server down")
            how()
            self._recorder.write("server up")
        except BaseException as error:
            self._failure = error

    def _restart(self) -> None:
        self._postgres.restart("immediate")

    def _crash(self) -> None:
        """Kill one backend as the kernel does when memory runs out: PostgreSQL ends all others and recovers."""
        with self._connect() as conn:
            began = self._began(conn)
            os.kill(self._random.choice(self._backends(conn)), signal.SIGKILL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.Error), self._connect() as conn:
                if self._began(conn) != began:
                    return
            time.sleep(0.05)
        raise TimeoutError("PostgreSQL did not recover from the loss of a backend within 60 s")

    def _began(self, conn: psycopg.Connection[Any]) -> Any:
        """Say since when the server has been what it is: the checkpointer starts anew after a crash."""
        row = conn.execute("SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'").fetchone()
        return row and row[0]

    def _terminate(self) -> bool:
        try:
            with self._connect() as conn:
                pids = self._backends(conn)
                if not pids:
                    return False
                answer = conn.execute("SELECT pg_terminate_backend(%s)", [self._random.choice(pids)]).fetchone()
                return bool(answer and answer[0])
        except psycopg.Error:
            return False

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True, connect_timeout=2, application_name="chaos")

    def _backends(self, conn: psycopg.Connection[Any]) -> list[int]:
        rows = conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'rota %' ORDER BY pid").fetchall()
        return [pid for (pid,) in rows]


def wait_for(condition: Callable[[], bool], deadline: float, every_s: float = 0.1) -> bool:
    """Look until it is so, or the deadline has passed."""
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
