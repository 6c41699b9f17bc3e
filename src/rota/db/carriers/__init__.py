"""Connections of the caller's own, whatever library they come from, so that we can take part in their transaction."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from rota.db.carriers.drivers import AsyncPsycopgCarrier, PsycopgCarrier
from rota.db.carriers.sessions import async_carrier_of, carrier_of, is_async
from rota.db.steps import Steps, carry_out, carry_out_async

__all__ = ["AsyncPsycopgCarrier", "PsycopgCarrier", "async_carrier_of", "carrier_of", "carry", "is_async"]

Result = TypeVar("Result")


def carry(conn: Any, steps: Steps[Result]) -> Result | Coroutine[Any, Any, Result]:
    """Does the steps on a connection of any kind; with an async one, await the answer."""
    return _carry_async(conn, steps) if is_async(conn) else carry_out(carrier_of(conn), steps)


async def _carry_async(conn: Any, steps: Steps[Result]) -> Result:
    return await carry_out_async(await async_carrier_of(conn), steps)
