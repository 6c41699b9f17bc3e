"""Reads that are repeated when PostgreSQL ends a session in the middle of them. Changes are not: they may have been done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from rota.db.failures import was_lost
from rota.errors import DatabaseError

Answer = TypeVar("Answer")

TRIES = 4
ENDING_S = 0.05  # until other sessions that end at the same time have said so, and are not used again


async def repeat_read(read: Callable[[], Awaitable[Answer]]) -> Answer:
    """Read, and again if the connection was lost meanwhile."""
    for _ in range(TRIES - 1):
        try:
            return await read()
        except (DatabaseError, psycopg.OperationalError) as error:
            if not was_lost(error):
                raise
            await asyncio.sleep(ENDING_S)
    return await read()
