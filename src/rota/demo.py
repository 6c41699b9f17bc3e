"""The application of `rota demo`: a small shop whose jobs succeed, fail, time out, snooze, fan out and fan in, and whose
schedules fire."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import random
import time
from datetime import timedelta

from rota import Context, NewJob, Retry, Rota, Snooze, cron, every

app = Rota(name="rota-demo")  # by which the dashboard knows it
chance = random.Random()
SUPPLIERS = ["Alpine Bikes", "Baltic Sails", "Cretan Olives", "Danish Chairs", "Nowhere Ltd"]
impatient = Retry(max_attempts=4, base="500ms", cap="4s", jitter="500ms")


@app.task(queue="mail")
async def send_receipt(order_id: int, lang: str = "en") -> str:
    """The plain case: a few milliseconds, and done."""
    await asyncio.sleep(chance.uniform(0.005, 0.03))
    return f"receipt {order_id} sent in {lang}"


@app.task(queue="payments", retry=impatient)
async def charge_card(order_id: int, cents: int) -> int:
    """Fails one time in five, and succeeds when it is tried again."""
    await asyncio.sleep(chance.uniform(0.01, 0.05))
    if chance.random() < 0.2:
        raise ConnectionError(f"the payment gateway answered 503 for order {order_id}")
    return cents


@app.task(timeout="600ms", retry=impatient)
async def ask_partner(order_id: int) -> str:
    """Takes too long one time in four, and is stopped."""
    await asyncio.sleep(chance.uniform(0.05, 0.8))
    return f"order {order_id} confirmed"


@app.task
async def await_delivery(ctx: Context, order_id: int) -> str | Snooze:
    """Looks twice in vain, and comes back two seconds later each time."""
    return Snooze("2s") if ctx.attempt < 3 else f"order {order_id} delivered"


@app.task(queue="images")
def resize_photo(photo_id: int, width: int = 640) -> str:
    """A synchronous handler, which runs in a thread and uses the processor."""
    return hashlib.pbkdf2_hmac("sha256", str(photo_id).encode(), b"photo", width * 20).hex()[:8]


@app.task(queue="images", isolate=True, timeout="5s")
def render_invoice(order_id: int) -> str:
    """Runs in a process of its own, which could be killed without hurting its neighbours."""
    time.sleep(0.05)
    return f"invoice {order_id} rendered by process {os.getpid()}"


@app.task(retry=Retry(max_attempts=2, base="1s"))
async def sync_legacy(order_id: int) -> None:
    """Never works, and ends among the dead letters."""
    raise LookupError(f"order {order_id} is unknown to the old system")


@app.task
async def import_catalog(ctx: Context, pages: int) -> None:
    """Fans out into a job for each page, and one that waits for all of them."""
    indexing = [index_page.job(page=page) for page in range(pages)]
    await app.aenqueue_many([*indexing, publish_catalog.job(pages=pages).after(*indexing)])
    ctx.log.info("fanned out", pages=pages)


@app.task
async def index_page(page: int) -> str:
    """One of many, in any order."""
    await asyncio.sleep(chance.uniform(0.01, 0.05))
    return f"page {page} indexed"


@app.task
async def publish_catalog(pages: int) -> str:
    """Runs once, after the last page."""
    return f"{pages} pages published"


@app.task(schedule=every("3s", overlap="skip"))
async def count_stock() -> int:
    """Every three seconds, unless the last count still goes on: one time in four it takes longer."""
    await asyncio.sleep(chance.choice([0.1, 0.2, 0.5, 4]))
    return chance.randrange(1000)


@app.task(schedule=cron("* * * * *", start_within="10s"))
async def close_books() -> str:
    """At the full minute."""
    return "closed"


@app.task(schedule=cron("0 9 * * 1-5", tz="Europe/Berlin"))
async def send_digest() -> None:
    """On workdays at nine in Berlin: not often enough to be seen here, but its next time is."""


@app.recurring(key="supplier:{name}", retry=Retry(base="2s", cap="8s", jitter="1s"))
async def poll_supplier(name: str) -> timedelta:
    """One row per supplier, which says itself when it is to be asked again; one of them never answers."""
    if name == "Nowhere Ltd" or chance.random() < 0.1:
        raise ConnectionError(f"{name} does not answer")
    return timedelta(seconds=chance.uniform(2, 6))


async def stream(jobs_per_s: float = 100) -> None:
    """Orders come in for ever, in waves of half a minute; suppliers are asked again and again."""
    for name in SUPPLIERS:
        await poll_supplier.aensure(name)
    order_id = 0
    while True:
        rate = jobs_per_s * (1 + 0.6 * math.sin(time.monotonic() / 30 * math.tau))
        orders: list[NewJob] = []
        while len(orders) < rate / 5:
            order_id += 1
            orders += _jobs_of_order(order_id)
        await app.aenqueue_many(orders)
        await asyncio.sleep(0.2)


def _jobs_of_order(order_id: int) -> list[NewJob]:
    jobs: list[NewJob] = [charge_card.job(order_id=order_id, cents=chance.randrange(100, 99_999))]
    jobs += [send_receipt.job(order_id=order_id).after(*jobs), resize_photo.job(photo_id=order_id)]
    for share, job in (
        (0.4, ask_partner.job(order_id=order_id)),
        (0.3, await_delivery.job(order_id=order_id)),
        (0.1, render_invoice.job(order_id=order_id)),
        (0.05, sync_legacy.job(order_id=order_id)),
        (0.02, import_catalog.job(pages=20)),
    ):
        if chance.random() < share:
            jobs.append(job)
    return jobs
