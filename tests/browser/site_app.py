"""The application whose jobs the browser looks at. What a job does is in its payload."""

from __future__ import annotations

import asyncio
import logging
import os

import psycopg

from rota import Rota

app = Rota(name="shop")
app.queue("mail")
app.queue("quiet")

log = logging.getLogger("shop")


@app.task(queue="mail", max_attempts=1)
async def send_mail(to: str, fails: bool = False, lines: int = 0) -> str:
    """Sends a mail, or says that it could not."""
    for number in range(lines):
        log.info("line %s for %s", number, to)
    if fails:
        raise ConnectionError(f"{to}: connection reset by peer")
    return f"sent to {to}"


@app.task(max_attempts=1)
async def wait_for_word(word: str) -> None:
    """Runs until somebody puts a word into the table."""
    async with await psycopg.AsyncConnection.connect(os.environ["ROTA_DATABASE_URL"], autocommit=True) as conn:
        while not await (await conn.execute("SELECT 1 FROM word WHERE word = %s", [word])).fetchone():
            log.info("waiting for %s", word)
            await asyncio.sleep(0.05)


@app.task(queue="quiet")
def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b
