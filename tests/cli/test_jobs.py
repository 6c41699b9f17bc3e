"""`rota jobs`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import command
from tests.support import jobs as given
from tests.support.invoke import Rota

from rota.model.ids import new_id

Conn = psycopg.Connection[Any]
NOWHERE = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"

APPLICATION = """
from rota import Rota

app = Rota()

@app.task(queue="mail")
def send(user_id: int, lang: str = "en") -> None: ...
"""


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


@pytest.fixture(autouse=True)
def _tasks(conn: Conn) -> None:
    given.declare(conn, "work")


@pytest.mark.req("K01")
class TestList:
    def test_it_works(self, rota: Rota, conn: Conn) -> None:
        worker = given.start_worker(conn)
        failed = given.enqueue(conn)
        given.fail(conn, worker, error="no route to host\nat all")
        queued = given.enqueue(conn)
        answer = rota("jobs", "list")
        head, first, second = answer.out.splitlines()
        assert (answer.code, answer.err) == (0, "")
        assert head.split()[:5] == ["ID", "STATE", "TASK", "QUEUE", "ATTEMPT"]
        assert first.split()[:5] == [str(queued), "queued", "work", "default", "0"]
        assert second.split()[:5] == [str(failed), "failed", "work", "default", "1"]
        assert second.endswith("ValueError: no route to host at all")

    def test_filters(self, rota: Rota, conn: Conn) -> None:
        worker = given.start_worker(conn)
        given.declare(conn, "other", queue="mail")
        failed, other = given.enqueue(conn), given.enqueue(conn, "other")
        given.fail(conn, worker, error="boom")

        def listed(*args: str) -> list[str]:
            return [job["id"] for job in rota("jobs", "list", "--json", *args).data["jobs"]]

        assert listed() == [str(other), str(failed)]
        assert listed("--state", "failed") == [str(failed)]
        assert listed("--state", "failed", "--state", "queued") == [str(other), str(failed)]
        assert listed("--task", "oth*") == [str(other)]
        assert listed("--queue", "mail") == [str(other)]
        assert listed("--text", "BOOM") == [str(failed)]
        assert listed("--since", "1h") == [str(other), str(failed)]
        assert listed("--since", "2999-01-01T00:00") == []

    def test_json_and_pages(self, rota: Rota, conn: Conn) -> None:
        made = [str(given.enqueue(conn)) for _ in range(3)]
        page = rota("jobs", "list", "--limit", "2", "--json").data
        assert [job["id"] for job in page["jobs"]] == made[:0:-1]
        assert page["jobs"][0]["created_at"].endswith("Z")
        assert page["next"] == made[1]
        assert f"--before {made[1]}" in rota("jobs", "list", "--limit", "2").err
        last = rota("jobs", "list", "--before", page["next"], "--json").data
        assert ([job["id"] for job in last["jobs"]], last["next"]) == ([made[0]], None)

    def test_nothing_found(self, rota: Rota) -> None:
        answer = rota("jobs", "list")
        assert (answer.code, answer.out, answer.err) == (0, "", "no job matches\n")

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["--state", "gone"], "state='gone' is not a state of jobs: one of waiting, queued, running"),
            (["--limit", "0"], "--limit"),
            (["--since", "yesterday"], "--since='yesterday' is not a duration"),
            (["--since", "2030-13-01"], "--since='2030-13-01' is not a time"),
            (["--before", "7"], "valid UUID"),
        ],
    )
    def test_wrong_use_is_refused_before_anyone_is_asked(self, rota: Rota, args: list[str], words: str) -> None:
        rota.dsn = NOWHERE
        answer = rota("jobs", "list", *args)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err


class TestShow:
    def test_it_works(self, rota: Rota, conn: Conn) -> None:
        worker = given.start_worker(conn)
        id = given.enqueue(conn, payload={"name": "Zoë", "big": 2**70})
        child = given.enqueue(conn, parents=[id])
        [(_, token)] = given.claim(conn, worker)
        given.finish(conn, id, token, worker, "failed", error="boom")
        answer = rota("jobs", "show", id)
        assert answer.code == 0
        lines = dict(line.split(":", 1) for line in answer.out.split("\n\n")[0].splitlines())
        assert lines["state"].strip() == "queued"
        assert json.loads(lines["payload"]) == {"name": "Zoë", "big": 2**70}
        assert lines["error"].strip() == "ValueError: boom"
        assert str(child) in answer.out
        data = rota("jobs", "show", id, "--json").data
        assert data["job"]["payload"] == {"name": "Zoë", "big": 2**70}
        assert [(run["attempt"], run["outcome"], run["error"]["message"]) for run in data["runs"]] == [(1, "failed", "boom")]
        assert [(each["id"], each["state"]) for each in data["children"]] == [(str(child), "waiting")]

    def test_what_somebody_stored_does_not_steer_the_terminal(self, rota: Rota, conn: Conn) -> None:
        id = given.enqueue(conn, payload={}, key="\x1b[2Jgone")
        assert "\x1b" not in rota("jobs", "show", id).out

    @pytest.mark.parametrize("verb", ["show", "retry", "cancel", "why"])
    def test_there_is_no_such_job(self, rota: Rota, verb: str) -> None:
        id = new_id()
        answer = rota("jobs", verb, id)
        assert (answer.code, answer.out) == (3, "")
        assert f"error: there is no job {id}: `rota jobs list`" in answer.err


@pytest.mark.req("K01")
class TestEnqueue:
    def test_without_an_application(self, rota: Rota, conn: Conn) -> None:
        answer = rota("jobs", "enqueue", "work", '{"n": 7}', "--priority", "3", "--delay", "5m", "--max-attempts", "2")
        assert (answer.code, answer.err) == (0, "")
        row = conn.execute(
            """SELECT id::text, payload, priority, max_attempts, state, run_at - created_at, triggered_by ->> 'kind'
               FROM rota.job"""
        ).fetchone()
        assert row == (answer.out.strip(), {"n": 7}, 3, 2, "delayed", timedelta(minutes=5), "cli")

    def test_with_an_application(self, dsn: str, conn: Conn, tmp_path: Path) -> None:
        given.declare(conn, queue="mail")
        (tmp_path / "app.py").write_text(APPLICATION)
        good = command.run("jobs", "enqueue", "send", '{"user_id": 7}', cwd=tmp_path, dsn=dsn)
        assert (good.returncode, good.stderr) == (0, "")
        assert conn.execute("SELECT id::text, queue, payload FROM rota.job").fetchone() == (
            good.stdout.strip(), "mail", {"user_id": 7},
        )  # fmt: skip
        bad = command.run("jobs", "enqueue", "send", '{"user_id": "x"}', "-a", "app:app", cwd=tmp_path, dsn=dsn)
        assert bad.returncode == 2
        assert "user_id" in bad.stderr
        assert "Traceback" not in bad.stderr
        assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (1,)

    def test_a_key_that_is_taken(self, rota: Rota) -> None:
        first = rota("jobs", "enqueue", "work", "--key", "k", "--json").data
        assert first["created"] is True
        again = rota("jobs", "enqueue", "work", "--key", "k")
        assert (again.code, again.out.strip()) == (0, first["id"])
        assert "the key 'k' was taken" in again.err
        assert rota("jobs", "enqueue", "work", "--key", "k", "--strict").code == 4
        assert rota("jobs", "enqueue", "work", '{"n": 1}', "--key", "k").code == 4

    def test_a_parent(self, rota: Rota, conn: Conn) -> None:
        parent = rota("jobs", "enqueue", "work").out.strip()
        child = rota("jobs", "enqueue", "work", "--parent", parent).out.strip()
        assert conn.execute("SELECT state FROM rota.job WHERE id = %s", [child]).fetchone() == ("waiting",)
        answer = rota("jobs", "enqueue", "work", "--parent", new_id())
        assert (answer.code, "does not exist" in answer.err) == (3, True)

    @pytest.mark.req("Q19")
    def test_what_becomes_of_it_when_its_parent_fails(self, rota: Rota, conn: Conn) -> None:
        parent = rota("jobs", "enqueue", "work").out.strip()
        policies = {"cancel": [], "fail": ["--on-parent-failure", "fail"], "ignore": ["--on-parent-failure", "ignore"]}
        made = {rota("jobs", "enqueue", "work", "--parent", parent, *args).out.strip(): policy for policy, args in policies.items()}
        assert dict(conn.execute("SELECT id::text, on_parent_failure FROM rota.job WHERE id <> %s", [parent]).fetchall()) == made

    @pytest.mark.parametrize(
        ("payload", "words"),
        [
            ("{", "the payload is not JSON: Expecting property name"),
            ("{'a': 1}", "the payload is not JSON"),
            ("[1]", "must be a JSON object"),
            ("null", "must be a JSON object"),
            ('{"a": NaN}', "the payload has NaN, which is not JSON"),
            ('{"a": -Infinity}', "the payload has -Infinity"),
            ('{"a":' * 100_000, "too deeply"),
        ],
    )
    def test_bad_json_is_refused_before_anyone_is_asked(self, rota: Rota, payload: str, words: str) -> None:
        rota.dsn = NOWHERE
        answer = rota("jobs", "enqueue", "work", payload)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["--delay", "soon"], "--delay='soon' is not a duration"),
            (["--run-at", "soon"], "--run-at='soon' is not a time"),
            (["--timeout", "0"], "--timeout='0'"),
            (["--priority", "x"], "--priority"),
            (["--parent", "x"], "valid UUID"),
        ],
    )
    def test_bad_options_too(self, rota: Rota, args: list[str], words: str) -> None:
        rota.dsn = NOWHERE
        answer = rota("jobs", "enqueue", "work", *args)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["nothing"], "there is no task 'nothing': known are work; a worker makes its tasks known when it starts"),
            (["work", "--queue", "nowhere"], 'unknown queue "nowhere". Known: default.'),
            (["work", "--max-attempts", "0"], "max_attempts=0 is out of range: from 1 to 1000"),
            (["work", "--priority", "40000"], "priority=40000 is out of range"),
            (["work", '{"a": "\\u0000"}'], "the payload cannot be stored: unsupported Unicode escape sequence (\\u0000 cannot be"),
            (["work", "--delay", "1s", "--run-at", "2030-01-01T00:00Z"], "run_at or delay, not both"),
            (["work", "--on-parent-failure", "wait"], "on_parent_failure='wait' is unknown: give one of cancel, fail, ignore"),
            (["work", "--key", "k" * 600], "key has 600 bytes, which is out of range: from 1 to 512"),
        ],
    )
    def test_what_the_database_refuses(self, rota: Rota, conn: Conn, args: list[str], words: str) -> None:
        answer = rota("jobs", "enqueue", *args)
        assert (answer.code, answer.out) == (2, "")
        assert words in answer.err
        assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (0,)


@pytest.mark.req("K01", "Q10")
class TestRetry:
    def test_by_id(self, rota: Rota, conn: Conn) -> None:
        worker = given.start_worker(conn)
        given.enqueue(conn)
        id = given.fail(conn, worker)
        answer = rota("jobs", "retry", id)
        assert (answer.code, answer.out, answer.err) == (0, "", f"job {id} retried, it is queued\n")
        given.claim(conn, worker)
        refused = rota("jobs", "retry", id)
        assert refused.code == 4
        assert f"error: job {id} is running: wait for its end, or `rota jobs cancel {id}` first" in refused.err

    @pytest.mark.req("C03")
    @pytest.mark.parametrize(
        ("args", "payload"),
        [
            (["--payload", '{"n": 2}'], {"n": 2}),
            (["--set", "n=2", "--set", "name=ann", "--set", 'text="3"', "--set", "list=[1]"],
             {"m": 0, "n": 2, "name": "ann", "text": "3", "list": [1]}),
        ],
    )  # fmt: skip
    def test_with_another_payload(self, rota: Rota, conn: Conn, args: list[str], payload: dict[str, object]) -> None:
        worker = given.start_worker(conn)
        given.enqueue(conn, payload={"m": 0, "n": 1})
        id = given.fail(conn, worker)
        answer = rota("jobs", "retry", id, *args)
        assert (answer.code, answer.err) == (0, f"job {id} edited and retried, it is queued\n")
        assert conn.execute("SELECT payload FROM rota.job").fetchone() == (payload,)
        [edit] = rota("jobs", "show", id, "--json").data["edits"]
        assert (edit["payload"], edit["attempt"], edit["edited_by"]["kind"]) == ({"m": 0, "n": 1}, 1, "cli")
        assert "PAYLOAD UNTIL THEN" in rota("jobs", "show", id).out

    @pytest.mark.req("C03")
    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["--payload", "{"], "not JSON"),
            (["--payload", "[]"], "must be a JSON object"),
            (["--set", "n"], "is not KEY=VALUE"),
            (["--set", "=1"], "is not KEY=VALUE"),
            (["--set", "n=1", "--set", "n=2"], "names 'n' twice"),
            (["--set", "n={1"], "--set n: '{1' is not JSON"),
            (["--set", "n=1", "--payload", "{}"], "and not both"),
            (["--task", "work", "--payload", "{}"], "ids or a filter, not both"),
            ([str(new_id()), "--payload", "{}"], "change one job: give one id, not 2 ids"),
        ],
    )
    def test_a_payload_that_cannot_be(self, rota: Rota, args: list[str], words: str) -> None:
        rota.dsn = NOWHERE
        answer = rota("jobs", "retry", new_id(), *args)
        assert (answer.code, words in answer.err) == (2, True), answer.err

    def test_by_filter_it_wants_to_be_sure(self, rota: Rota, conn: Conn) -> None:
        worker = given.start_worker(conn)
        for _ in range(3):
            given.enqueue(conn)
            given.fail(conn, worker)
        asked = rota("jobs", "retry", "--task", "work")
        assert asked.code == 2
        assert "This will retry 3 failed jobs. Go on? Nobody is here to ask: add --yes" in asked.err
        assert rota("jobs", "retry", "--task", "work", "--yes", "--json").data == {"changed": 3, "skipped": 0}
        assert rota("jobs", "retry", "--task", "work", "--yes").err == "no job matches\n"

    @pytest.mark.parametrize("verb", ["retry", "cancel"])
    def test_it_wants_to_know_which(self, rota: Rota, verb: str) -> None:
        rota.dsn = NOWHERE
        answer = rota("jobs", verb, "--yes")
        assert (answer.code, "say which jobs" in answer.err) == (2, True)
        answer = rota("jobs", verb, new_id(), "--task", "x")
        assert (answer.code, "ids or a filter, not both" in answer.err) == (2, True)


@pytest.mark.req("K01", "Q09")
class TestCancel:
    def test_by_id(self, rota: Rota, conn: Conn) -> None:
        worker = given.start_worker(conn)
        running = given.enqueue(conn)
        given.claim(conn, worker)
        queued = given.enqueue(conn)
        answer = rota("jobs", "cancel", queued, running, "--reason", "a mistake")
        assert answer.code == 0
        assert answer.err.splitlines() == [f"job {queued} canceled, it is canceled", f"job {running} was asked to stop"]
        assert "stopping" in rota("jobs", "list", "--state", "running").out
        assert "a mistake" in rota("jobs", "show", queued).out
        assert rota("jobs", "cancel", queued).code == 4

    def test_by_filter(self, rota: Rota, conn: Conn) -> None:
        for _ in range(3):
            given.enqueue(conn)
        assert rota("jobs", "cancel", "--state", "queued").code == 2
        answer = rota("jobs", "cancel", "--state", "queued", "--yes")
        assert (answer.code, answer.err) == (0, "3 canceled\n")


class TestWhy:
    def test_it_works(self, rota: Rota, conn: Conn) -> None:
        id = given.enqueue(conn, delay=timedelta(hours=1))
        answer = rota("jobs", "why", id)
        assert answer.code == 0
        due, nobody = answer.out.splitlines()
        assert due.startswith("It is not due before")
        assert nobody.startswith("No worker is live")
        data = rota("jobs", "why", id, "--json").data
        assert (data["state"], data["verdict"]) == ("queued", data["reasons"][0]["sentence"])
        assert [reason["code"] for reason in data["reasons"]] == ["not_due", "no_worker"]


def test_a_database_without_the_schema(rota: Rota, empty_dsn: str) -> None:
    rota.dsn = empty_dsn
    answer = rota("jobs", "list")
    assert (answer.code, "run `rota migrate up`" in answer.err) == (6, True)


def test_a_database_that_is_away(rota: Rota) -> None:
    rota.dsn = NOWHERE
    answer = rota("jobs", "list")
    assert (answer.code, "cannot be reached" in answer.err) == (6, True)
