"""Strings that a page must show and never obey, stored in every field that somebody could fill."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import psycopg
from tests.browser.site import Site

_CODE = "window.hacked=1;alert(1)"
STRINGS = [
    f"<script>{_CODE}</script>",
    f"<img src=x onerror={_CODE}>",
    f"<svg onload={_CODE}>",
    f"<svg><script>{_CODE}</script></svg>",
    f"<iframe src=javascript:{_CODE}>",
    f"<iframe srcdoc='<script>parent.{_CODE}</script>'>",
    f"<body onload={_CODE}>",
    f"<details open ontoggle={_CODE}>",
    f"<video><source onerror={_CODE}>",
    f"<audio src onloadstart={_CODE}>",
    f"<input autofocus onfocus={_CODE}>",
    f"<select autofocus onfocus={_CODE}>",
    f"<textarea autofocus onfocus={_CODE}>",
    f"<marquee onstart={_CODE}>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_CODE}>",
    f"<a href=javascript:{_CODE}>x</a>",
    f"javascript:{_CODE}",
    f"JaVaScRiPt:{_CODE}",
    f"\tjava\nscript:{_CODE}",
    f"data:text/html,<script>{_CODE}</script>",
    f"data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg=={_CODE}",
    f"vbscript:{_CODE}",
    f"'\"><script>{_CODE}</script>",
    f"';{_CODE};//",
    f'";{_CODE};//',
    f"`${{{_CODE}}}`",
    f"{{{{constructor.constructor('{_CODE}')()}}}}",
    f"${{{_CODE}}}",
    f"<%= {_CODE} %>",
    f"</title><script>{_CODE}</script>",
    f"</textarea><script>{_CODE}</script>",
    f"</script><script>{_CODE}</script>",
    f"--><script>{_CODE}</script>",
    f"]]><script>{_CODE}</script>",
    f"<style>@import 'javascript:{_CODE}';</style>",
    f"<div style=background:url(javascript:{_CODE})>",
    f"<link rel=stylesheet href=javascript:{_CODE}>",
    f"<meta http-equiv=refresh content=0;url=javascript:{_CODE}>",
    f"<base href=javascript:{_CODE}//>",
    f"<object data=javascript:{_CODE}>",
    f"<embed src=javascript:{_CODE}>",
    f"<form action=javascript:{_CODE}><button>x",
    f"<template shadowrootmode=open><script>{_CODE}</script>",
    f"__proto__[x]=<script>{_CODE}</script>",
    f"\u202e<script>{_CODE}</script>\u202c",
    f"\u2028<script>{_CODE}</script>",
    f"%3Cscript%3E{_CODE}%3C/script%3E",
    f"&lt;script&gt;{_CODE}&lt;/script&gt;",
]

# A job that failed, with every field of its run, its error and its lines; a queue, a schedule, an alert, a webhook, a worker, an
# audit row and a token beside it.
_RUN = """
WITH made AS (SELECT rota.uuid7() AS id)
INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, worker_id, error, result, payload,
                      priority, run_at, token, max_attempts, triggered_by, created_at, fingerprint, key, owner, progress)
SELECT id, 1, 'send_mail', 'mail', 'failed', true, rota.now(), rota.now(), gen_random_uuid(), %(error)s::json, %(result)s::json,
       %(payload)s::json, 0, rota.now(), 1, 1, %(origin)s::json, rota.now(), %(group)s, %(key)s, %(text)s, NULL
FROM made RETURNING job_id::text
"""
_LINE = """
INSERT INTO rota.log (at, task, job_id, attempt, sequence, level, message, fields)
VALUES (rota.now(), 'send_mail', %s::uuid, 1, 1, 40, %s, %s::json)
"""
# Beside the jobs, in every table that a page shows.
_BESIDE = [
    """INSERT INTO rota.queue (name, paused_at, pause_reason) VALUES ('odd' || %(number)s, rota.now(), %(text)s)""",
    """INSERT INTO rota.schedule (name, task, payload, strategy, cron, tz, enabled)
       VALUES (translate(%(text)s, E'/\\n\\t\\u2028', ''), 'add', json_build_object(%(text)s::text, %(text)s::text), 'cron',
               '0 3 * * *', 'UTC', false) ON CONFLICT DO NOTHING""",
    """INSERT INTO rota.alert (kind, subject, severity, summary, details, first_seen_at, last_seen_at, state, acknowledged_at,
                               acknowledged_by, note)
       VALUES ('job_failed', %(text)s, 'error', %(text)s, json_build_object(%(text)s::text, %(text)s::text), rota.now(), rota.now(),
               'acknowledged', rota.now(), %(text)s, %(text)s)""",
    """INSERT INTO rota.worker (id, host, pid, version, queues, tasks, slots, stopped_at, stop_reason)
       VALUES (gen_random_uuid(), %(text)s, 1, %(text)s, ARRAY[%(text)s::text], ARRAY[%(text)s::text], 4, rota.now(), %(text)s)""",
    """INSERT INTO rota.audit (actor, role, operation, target, detail)
       VALUES (%(text)s, 'admin', %(text)s, %(text)s, json_build_object(%(text)s::text, %(text)s::text))""",
    """INSERT INTO rota.api_token (token_hash, hint, account_id, name, created_by)
       SELECT %(hash)s, left(%(text)s, 10), id, %(text)s, %(text)s FROM rota.account LIMIT 1""",
]


def store(site: Site) -> list[str]:
    """Put all of them everywhere; the ids of the jobs that have them."""
    with psycopg.connect(site.dsn, autocommit=True) as conn:
        made = [_store(conn, number, text) for number, text in enumerate(STRINGS)]
    return [*made[:3], *made[-2:]]


def _store(conn: psycopg.Connection[Any], number: int, text: str) -> str:
    error = {
        "type": text[:100], "message": text, "module": text, "traceback": text,
        "causes": [{"type": text, "message": text, "traceback": text}], "fingerprint": f"{number:016x}",
    }  # fmt: skip
    values = {
        "error": json.dumps(error),
        "result": json.dumps({text: text}),
        "payload": json.dumps({"to": text, text: [text, {text: text}]}),
        "origin": json.dumps({"kind": "api", "user": text, "name": text}),
        "group": f"{number:016x}",
        "key": text,
        "text": text,
    }
    [(id,)] = conn.execute(_RUN, values).fetchall()
    conn.execute(_LINE, [id, text, json.dumps({text: text})])
    for statement in _BESIDE:
        conn.execute(statement.encode(), {"text": text, "number": number, "hash": sha256(text.encode()).digest()})
    return str(id)
