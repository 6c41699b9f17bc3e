"""The jobs of one `enqueue_many`: their ids, and an order in which parents come before their children."""

from __future__ import annotations

import gc
import graphlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rota.errors import CycleError, UsageError
from rota.model.ids import new_id_texts
from rota.model.job import NewJob


@contextmanager
def kept() -> Iterator[None]:
    """For a block that makes objects by the hundred thousand and keeps them all: Python does not look among them for garbage.

    It would again and again, and takes a fifth of the time of a large `enqueue_many`. Not around an `await`.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Batch:
    """Jobs that are stored together or not at all. Positions are those of the caller's list."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.ids = new_id_texts(len(jobs))
        # Jobs that nothing can keep from being stored, so that the fastest way there will do.
        self.free: list[int] = []
        self.bound: list[int] = []
        for at, job in enumerate(jobs):
            settings = job.settings
            (self.bound if job.parents or settings.parents or settings.key is not None else self.free).append(at)
        self._positions: dict[int, int] | None = None

    def parents(self, at: int) -> list[str]:
        """The ids of a job's parents, as far as they are known by now."""
        job = self.jobs[at]
        own = [parent if isinstance(parent, str) else self.ids[self._position(parent)] for parent in job.parents]
        return [*job.settings.parents, *own]

    def segments(self) -> list[list[int]]:
        """The bound jobs in an order that can be stored, cut where an id must be known before the next job is sent.

        Under a key another job may be there already, whose id is then the parent of what comes after.
        """
        segments: list[list[int]] = []
        segment: list[int] = []
        keyed: set[int] = set()  # of this segment
        for generation in self._generations():
            if segment and any(parent in keyed for at in generation for parent in self._parents_here(at)):
                segments.append(segment)
                segment, keyed = [], set()
            segment += generation
            keyed.update(at for at in generation if self.jobs[at].settings.key is not None)
        return [*segments, segment] if segment else segments

    def _generations(self) -> list[list[int]]:
        sorter = graphlib.TopologicalSorter({at: self._parents_here(at) for at in self.bound})
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            tasks = ", which waits for ".join(self.jobs[at].settings.task for at in reversed(error.args[1]))
            raise CycleError(f"these jobs could never run: {tasks.replace(', which', '', 1)}") from None
        bound = set(self.bound)
        generations = []
        while sorter.is_active():
            ready = sorter.get_ready()
            sorter.done(*ready)
            generations.append(sorted((at for at in ready if at in bound), key=self._rank))
        return generations

    def _rank(self, at: int) -> tuple[str, str, str, int]:
        # Everyone takes the locks on keys in one order, so that two batches with the same keys do not deadlock.
        settings = self.jobs[at].settings
        return settings.key or "", settings.task, settings.owner or "", at

    def _parents_here(self, at: int) -> list[int]:
        return [self._position(parent) for parent in self.jobs[at].parents if isinstance(parent, NewJob)]

    def _position(self, job: NewJob) -> int:
        if self._positions is None:
            self._positions = {}
            for at, each in enumerate(self.jobs):
                self._positions[id(each)] = -1 if id(each) in self._positions else at
        if id(job) not in self._positions:
            raise UsageError(f"{job!r} is the parent of a job in this call, but is not in it: add it")
        if (at := self._positions[id(job)]) < 0:
            raise UsageError(f"{job!r} is the parent of a job in this call, and is in it more than once")
        return at
