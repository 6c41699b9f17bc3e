"""Schemathesis over the whole API as an admin: `python -m tests.server.fuzz`, or `make fuzz`; the suite runs a shorter form.

No answer may be a 5xx, none may differ from what the document says, and what the document forbids must be refused.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from tests.support import jobs as given
from tests.support import people
from tests.support.postgres import migrate, server
from tests.support.shop import ADMIN, Shop, open_shop

from rota.apps.feeds.addresses import digest
from rota.apps.feeds.websub import Credentials
from rota.db import migrations

APPS = "rota.apps.feeds"
HUB_TOKEN = "known"
NAMED = ("id", "job_id", "name", "fingerprint", "token")  # parameters of paths of which there are known values
CALLS = 5000
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection",
)  # fmt: skip
# Who calls the first is signed in no more; the second never ends.
NOT_CALLED = ("/auth/logout", "/api/admin/stream")

# A body that is too long is refused before it is read: 413, which is as good as any.
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = ["4xx"]
"""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What came of it."""

    calls: int
    server_errors: int
    statuses: dict[str, int]
    exit_code: int
    output: str


async def fuzz(shop: Shop, *, examples: int, phases: str, seed: int, workers: int = 1) -> Fuzzed:
    """Run Schemathesis against a server, in a process of its own."""
    headers = await people.jwt(shop.server, ADMIN)
    async with shop.server.client.get("/openapi.json") as answer:
        document = json.dumps(name_what_is_there(await answer.json(), await known(shop)))
    with tempfile.TemporaryDirectory() as scratch:
        await asyncio.to_thread(Path(scratch, "openapi.json").write_text, document)  # Schemathesis does not wait long for it
        await asyncio.to_thread(Path(scratch, "schemathesis.toml").write_text, CONFIG)
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", shop.server.url,
            "--header", f"Authorization:{headers['Authorization']}", "--checks", ",".join(CHECKS), "--phases", phases,
            "--max-examples", str(examples), "--seed", str(seed), "--workers", str(workers), "--continue-on-failure",
            "--suppress-health-check", "all", "--request-timeout", "30", "--no-color", "--no-shrink",
        ]  # fmt: skip
        for path in NOT_CALLED:
            command += ["--exclude-path", path]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=scratch,
            env={**os.environ, "NO_COLOR": "1", "HYPOTHESIS_STORAGE_DIRECTORY": scratch},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
    counts = answered(shop)
    errors = sum(count for status, count in counts.items() if status.startswith("5"))
    return Fuzzed(sum(counts.values()), errors, counts, process.returncode or 0, out.decode(errors="replace"))


async def known(shop: Shop) -> dict[str, list[Any]]:
    """What there is, by the beginning of the path that leads to it."""
    jobs = [job["id"] for job in (await shop.get("/jobs", limit=100))["items"]]
    return {
        "/api/admin/jobs/": jobs,
        "/api/admin/runs/": jobs,
        "/api/admin/tasks/": ["send", "count", "sweep"],
        "/api/admin/schedules/": [line["record"]["name"] for line in (await shop.get("/schedules"))["items"]],
        "/api/admin/queues/": ["mail", "default"],
        "/api/admin/errors/": [group["fingerprint"] for group in (await shop.get("/errors"))["items"]],
        "/api/admin/workers/": [worker["id"] for worker in (await shop.get("/workers"))["items"]],
        "/api/admin/alerts/": [alert["id"] for alert in (await shop.get("/alerts", all="true"))["items"]],
        "/api/admin/webhooks/": [webhook["id"] for webhook in (await shop.get("/webhooks"))["items"]],
        "/api/admin/feeds/": [feed["id"] for feed in (await shop.get("/feeds"))["items"]],
        "/websub/": [HUB_TOKEN, "unknown"],
    }


def name_what_is_there(document: dict[str, Any], known: dict[str, list[Any]]) -> dict[str, Any]:
    """Have the document say which things there are, so that not all calls are about what is not there."""
    for path, operations in document["paths"].items():
        values = next((values for beginning, values in known.items() if path.startswith(beginning + "{")), [])
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if values and parameter["in"] == "path" and parameter["name"] in NAMED:
                    parameter["schema"] = {"enum": values}
    return document


def answered(shop: Shop) -> dict[str, int]:
    """How many requests the server has answered with each status, by its own metrics."""
    counts: dict[str, int] = {}
    for metric in shop.server.state.requests.collect():
        if metric.name == "rota_http_requests":
            for sample in metric.samples:
                counts[sample.labels["status"]] = counts.get(sample.labels["status"], 0) + int(sample.value)
    return counts


async def stock(shop: Shop, dsn: str) -> None:
    """Have something of everything in the database, so that there is something to find."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        migrations.up(conn, shop.app.migrations)
        worker = given.start_worker(conn, queues=("mail",), tasks=("send",))
        for n in range(20):
            await shop.post("/tasks/send/trigger", {"payload": {"user_id": n}}, status=201)
        for n in range(10):
            given.fail(conn, worker, queue="mail", error=f"kind {n % 3}")
        given.claim(conn, worker, queue="mail", limit=3)
        conn.execute("SELECT rota.raise_alert('job_failed', 'send', 'f', 'error', 'broken', '{}', 1, rota.now(), rota.now())")
    for name in ("nightly", "none", "0"):
        await shop.post("/schedules", {"name": name, "task": "send", "cron": "0 3 * * *", "payload": {"user_id": 1}}, status=201)
    await shop.post("/webhooks", {"url": "https://example.org/hook"}, status=201)
    await shop.post("/feeds", {"url": "https://example.org/feed"}, status=201)
    with psycopg.connect(dsn, autocommit=True) as conn:
        hub = "https://hub.example.org/"
        sealed = Credentials("https://example.org/feed", HUB_TOKEN, "s").seal(1, hub)
        conn.execute(
            """INSERT INTO feeds.websub (feed_id, hub, sealed, topic_digest, token_digest, state, until)
               VALUES (1, %s, %s, %s, %s, 'active', rota.now() + interval '1 day')""",
            [hub, sealed, digest("https://example.org/feed"), digest(HUB_TOKEN)],
        )


async def main(arguments: Any) -> int:
    """Run until there have been enough calls; 0 if all went well."""
    with server() as postgres:
        dsn = postgres.dsn()
        migrate(dsn)
        async with open_shop(dsn, http_enabled=True, app_apps=APPS) as shop:
            await stock(shop, dsn)
            seed = arguments.seed
            while True:
                found = await fuzz(
                    shop, examples=arguments.examples, phases="examples,coverage,fuzzing,stateful", seed=seed, workers=2
                )
                print(found.output)
                print(f"{found.calls} calls, {found.server_errors} answers 5xx; seed {seed}\n{json.dumps(found.statuses)}")
                if found.exit_code or found.server_errors:
                    return 1
                if found.calls >= arguments.calls:
                    return 0
                seed += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="at least so many")
    parser.add_argument("--examples", type=int, default=50, help="of each operation, in each phase")
    parser.add_argument("--seed", type=int, default=1)
    os.chdir(Path(__file__).parents[2])
    sys.exit(asyncio.run(main(parser.parse_args())))
