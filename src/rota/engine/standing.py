"""A worker's tasks as operators want them run: what code says, with what they have changed since."""

from __future__ import annotations

from collections.abc import Mapping

from rota.db.connection import AsyncConn
from rota.model.definition import Overrides, apply
from rota.model.task import TaskSpec
from rota.store import tasks

LOOK_EVERY_S = 1.0  # how soon a change reaches workers that run


class Standing:
    """The tasks by name, and those that have a limit; both change while the worker runs, in place."""

    def __init__(self, tasks: Mapping[str, TaskSpec]) -> None:
        self.code = tasks
        self.tasks: dict[str, TaskSpec] = dict(tasks)
        self.limited: set[str] = {name for name, task in tasks.items() if task.limited}
        self._overrides: dict[str, Overrides] = {}

    async def look(self, conn: AsyncConn) -> None:
        """Finds out what operators have changed."""
        self.learn(await tasks.read_overrides(conn))

    def learn(self, overrides: Mapping[str, Overrides]) -> None:
        """Takes in what operators have changed by now, all of it."""
        ours = {name: changes for name, changes in overrides.items() if name in self.code}
        for name in ours.keys() | self._overrides.keys():
            if ours.get(name) != self._overrides.get(name):
                task = self.tasks[name] = apply(self.code[name], ours[name]) if name in ours else self.code[name]
                (self.limited.add if task.limited else self.limited.discard)(name)
        self._overrides = ours
