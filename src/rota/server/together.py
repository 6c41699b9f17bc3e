"""Does for many requests at once what each of them asks for by itself.

A statement costs the database and us much the same for one row as for thirty, and its commit waits for the disk either way. So
what is asked for while a round is under way waits for the next one, which does all of it. Nobody is given what was seen before
they asked: a round has only those who came before it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from rota.errors import DatabaseError

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST = 100  # in one round


class Together(Generic[Asked, Answer]):
    """Rounds of one kind of question; `do` answers several, in their order."""

    def __init__(self, do: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]]) -> None:
        self._do = do
        self._waiting: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._rounds: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Answer:
        """The answer to one of them."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._rounds is None:
            self._rounds = asyncio.create_task(self._go_round())
        return await answer

    async def _go_round(self) -> None:
        try:
            while self._waiting:
                here, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._answer([(asked, answer) for asked, answer in here if not answer.done()])  # who has gone is left out
        finally:
            self._rounds = None

    async def _answer(self, here: Sequence[tuple[Asked, asyncio.Future[Answer]]]) -> None:
        try:
            found = await self._do([asked for asked, _ in here])
        except BaseException as error:
            if len(here) > 1 and isinstance(error, Exception) and not isinstance(error, DatabaseError):
                # One of them is at fault, and only that one is to hear of it.
                await asyncio.gather(*(self._answer([each]) for each in here))
                return
            for _, answer in here:
                if not answer.done():
                    answer.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            if not isinstance(error, Exception):
                raise
        else:
            for (_, answer), each in zip(here, found, strict=True):
                if not answer.done():
                    answer.set_result(each)
