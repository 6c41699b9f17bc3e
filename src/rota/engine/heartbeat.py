"""The worker's sign of life and the renewal of its leases, from a thread with a connection of its own.

A handler that blocks the event loop, or holds every pooled connection, does not stop it.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from rota.db.connection import Backoff
from rota.engine.holdings import Holdings
from rota.engine.options import WorkerOptions
from rota.engine.transport import Pulse, Transport
from rota.errors import OwnedElsewhere
from rota.events import DatabaseBack, DatabaseLost, Events
from rota.model.run import Run
from rota.model.task import TaskSpec

ANSWER_WITHIN_S = 10.0


class Heartbeat(threading.Thread):
    """Beats until closed; a session that breaks is replaced at once, so that nobody takes the worker for dead."""

    def __init__(
        self, transport: Transport, options: WorkerOptions, specs: Sequence[TaskSpec], holdings: Holdings, events: Events,
        on_lost: Callable[[Run], None],
    ) -> None:  # fmt: skip
        super().__init__(name="rota-heartbeat", daemon=True)
        self.registered = threading.Event()
        self.refusal: OwnedElsewhere | None = None  # another application owns one of the tasks
        self._transport = transport
        self._options = options
        self._specs = specs
        self._holdings = holdings
        self._events = events
        self._on_lost = on_lost
        self._stop_reason: str | None = None
        self._wake_read, self._wake_write = os.pipe()
        self._beating: tuple[Pulse, float] | None = None
        self._backoff = Backoff(first_s=0.05)
        self._away_since: float | None = None

    def run(self) -> None:
        """Keeps a session open and beats in it."""
        while self._stop_reason is None:
            try:
                with self._transport.open_pulse() as pulse:
                    self._serve(pulse)
            except Exception as error:
                if isinstance(error, OwnedElsewhere) and not self.registered.is_set():
                    self.refusal = error
                    return
                wait_s = self._backoff.next()
                self._away_since = self._away_since or monotonic()
                self._events.emit(DatabaseLost("heartbeat", error, wait_s))
                self._wait(wait_s)

    def _serve(self, pulse: Pulse) -> None:
        while True:
            with self._answer(pulse):
                self.run_once(pulse)
            self._backoff.reset()
            if self._away_since is not None:
                self._events.emit(DatabaseBack("heartbeat", monotonic() - self._away_since))
                self._away_since = None
            self.registered.set()
            # Readable means that the server has something to say unasked: as a rule, good-bye.
            if self._stop_reason is None and pulse.fileno() in self._wait(self._options.heartbeat_s, pulse.fileno()):
                with self._answer(pulse):
                    pulse.probe()
            if self._stop_reason is not None:
                with self._answer(pulse):
                    pulse.stop(self._stop_reason)
                return

    @contextlib.contextmanager
    def _answer(self, pulse: Pulse) -> Iterator[None]:
        """For the length of a statement, `check` sees since when it has been waiting."""
        self._beating = pulse, monotonic()
        try:
            yield
        finally:
            self._beating = None

    def _wait(self, seconds: float, *descriptors: int) -> list[int]:
        """Waits for one of these, or for `close`; poll, because select knows no descriptor above 1023."""
        poll = select.poll()
        for descriptor in (self._wake_read, *descriptors):
            poll.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]

    def run_once(self, pulse: Pulse) -> None:
        """Registers where needed, beats, and renews the leases of what has been running for long."""
        known = pulse.beat()
        if known is None:
            options = self._options
            pulse.register(
                self._specs, app=options.app, queues=list(options.queues), limits=options.queue_limits, slots=options.concurrency
            )
            pulse.beat()
        # Whoever called us dead has taken our jobs: each of them must be asked about.
        older_than_s = 0.0 if known == "called dead" else self._options.lease_s / 2
        now = monotonic()
        # A list of a dict's values is made in one step of the interpreter: the event loop cannot interfere.
        long = [run for run in list(self._holdings.held.values()) if now - run.leased > older_than_s]
        if not long:
            return
        renewed, lost = pulse.renew(long, lease_s=self._options.lease_s)
        for run in long:
            if run.id in renewed:
                run.leased = now
            elif run.id in lost and self._holdings.held.get(run.id) is run:
                self._on_lost(run)

    def check(self) -> None:
        """Called from the event loop now and then: cuts a connection that has not answered for too long."""
        if (beating := self._beating) is not None and monotonic() - beating[1] > ANSWER_WITHIN_S:
            beating[0].cut()

    def close(self, reason: str, patience_s: float) -> None:
        """Beats one last time, marks the worker as stopped and ends the thread."""
        self._stop_reason = reason
        os.write(self._wake_write, b"x")
        self.join(patience_s)
        if not self.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)
