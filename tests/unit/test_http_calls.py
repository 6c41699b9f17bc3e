"""HTTP calls as they are made: what is refused before anything is stored, and what is stored of the rest."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from rota.errors import PayloadError, UsageError
from rota.model import secret as secret_module
from rota.model.http_call import HttpCall, make_call, read_url
from rota.model.payload import PayloadSchema
from rota.model.secret import Record
from rota.model.vault import seal_payload

pytestmark = pytest.mark.req("H01")

CANARY = "hunter2canary"


async def http_call(call: HttpCall) -> None: ...


SCHEMA = PayloadSchema.from_handler(http_call)[0]
MINE = Record("job", "7", "ann")


def stored(call: HttpCall) -> str:
    """The call as a job has it in the database."""
    return seal_payload(SCHEMA.encode((call,)), MINE, SCHEMA.task)


@pytest.fixture(params=[None, "k" * 32], ids=["no key", "key"])
def key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(secret_module, "_keys", ())
    secret_module.use_keys(request.param)
    value: str | None = request.param
    return value


class TestUrls:
    @pytest.mark.parametrize(
        ("given", "url", "query", "host", "port"),
        [
            ("https://example.org", "https://example.org/", "", "example.org", 443),
            ("HTTP://Example.ORG:8080/A?b=C#d", "http://example.org:8080/A", "b=C", "example.org", 8080),
            ("http://exämple.org/ä?ö=1", "http://xn--exmple-cua.org/%C3%A4", "%C3%B6=1", "xn--exmple-cua.org", 80),
            ("https://[2606:4700::1]:8443/x", "https://[2606:4700::1]:8443/x", "", "2606:4700::1", 8443),
            ("http://1.2.3.4./a%2Fb;c=d", "http://1.2.3.4/a%2Fb;c=d", "", "1.2.3.4", 80),
            ("https://a_b.example.org/?q=a b".replace(" ", "%20"), "https://a_b.example.org/", "q=a%20b", "a_b.example.org", 443),
            ("https://example.org?x=http://y/?z", "https://example.org/", "x=http://y/?z", "example.org", 443),
            ('https://example.org/<">{}|^`', "https://example.org/%3C%22%3E%7B%7D%7C%5E%60", "", "example.org", 443),
        ],
    )
    def test_read(self, given: str, url: str, query: str, host: str, port: int) -> None:
        assert read_url(given) == (url, query, host, port)

    @pytest.mark.parametrize(
        "url",
        [
            "",
            " ",
            "x",
            "//example.org",
            "/path",
            "example.org",
            "ftp://example.org/",
            "file:///etc/passwd",
            "gopher://x/",
            "ws://x/",
            "javascript:alert(1)",
            "http:",
            "http://",
            "http:///x",
            "http://:80/",
            "http://x:0/",
            "http://x:65536/",
            "http://x:-1/",
            "http://x:y/",
            "http://u@x/",
            "http://u:p@x/",
            "http://@x/",
            "http://x /",
            "http://x/\n",
            "http://x/\r\nHost: y",
            "http://x/\0",
            "http://x/\x7f",
            "http://x\\y/",
            "http://x/a b",
            "http://[::1/",
            "http://[x]/",
            "http://[1.2.3.4]/",
            "http://[::1%25eth0]/",
            "http://a..b/",
            "http://.a/",
            "http://-a/",
            "http://a-/",
            "http://" + "a" * 64 + ".org/",
            "http://" + "a." * 130 + "org/",
            "http://x%2e/",
            "http://x/" + "y" * 5000,
            "http://0x7f.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://1.2.3.4.5/",
            "http://1.2.3.08/",
            "http://256.1.1.1/",
            "http://x/\ud800",
            "http://\ud800/",
            "http://a,b/",
            "http://a$b/",
            None,
            7,
            b"http://x/",
        ],
    )
    def test_refused(self, url: Any) -> None:
        with pytest.raises(UsageError):
            make_call(url)

    def test_nothing_secret_is_said(self) -> None:
        for url in (f"http://u:{CANARY}@x/", f"ftp://x/?t={CANARY}", f"http://x y/?t={CANARY}", f"http://x:0/?t={CANARY}"):
            with pytest.raises(UsageError) as raised:
                make_call(url)
            assert CANARY not in str(raised.value)


class TestTheRest:
    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"method": "TRACE"}, "method"),
            ({"method": "CONNECT"}, "method"),
            ({"method": "GET\r\n"}, "method"),
            ({"method": 7}, "method"),
            ({"headers": {"Host": "x"}}, "Host cannot be set"),
            ({"headers": {"content-length": "1"}}, "cannot be set"),
            ({"headers": {"Transfer-Encoding": "chunked"}}, "cannot be set"),
            ({"headers": {"Connection": "close"}}, "cannot be set"),
            ({"headers": {"Proxy-Authorization": "x"}}, "cannot be set"),
            ({"headers": {"Webhook-Signature": "x"}}, "cannot be set"),
            ({"headers": {"Upgrade": "h2c"}}, "cannot be set"),
            ({"headers": {"Transfer_Encoding": "chunked"}}, "Transfer_Encoding cannot be set"),
            ({"headers": {"content_length": "1"}}, "cannot be set"),
            ({"headers": {"Transfer.Encoding": "chunked"}}, "cannot be set"),
            ({"headers": {"Proxy_Connection": "x"}}, "cannot be set"),
            ({"headers": {"HTTP2-Settings": "x"}}, "cannot be set"),
            ({"headers": {"X-Key": "a", "X_Key": "b"}}, "twice"),
            ({"headers": {"Expect": "100-continue"}}, "cannot be set"),
            ({"headers": {"X\r\nY": CANARY}}, "not a name"),
            ({"headers": {"": CANARY}}, "not a name"),
            ({"headers": {"X Y": "z"}}, "not a name"),
            ({"headers": {"X:": "z"}}, "not a name"),
            ({"headers": {"Ä": "z"}}, "not a name"),
            ({"headers": {7: "z"}}, "not a name"),
            ({"headers": {"X": f"{CANARY}\r\nY: z"}}, "line break"),
            ({"headers": {"X": f"{CANARY}\0"}}, "control"),
            ({"headers": {"X": 7}}, "not text"),
            ({"headers": {"X": f"{CANARY}\ud800"}}, "not text"),
            ({"headers": {"X": "a", "x": "b"}}, "twice"),
            ({"headers": {f"X{n}": "y" for n in range(51)}}, "at most 50"),
            ({"headers": {"X": "y" * 20_000}}, "at most 16384"),
            ({"body": "x" * 300_000}, "at most 262144"),
            ({"body": b"x" * 300_000}, "at most 262144"),
            ({"body": "\ud800"}, "surrogate"),
            ({"body": 7}, "of type int"),
            ({"body": "x", "json": 1}, "not both"),
            ({"json": float("nan")}, "JSON"),
            ({"json": {1, 2}}, "JSON"),
            ({"body": "x", "method": "GET"}, "not allowed with"),
            ({"timeout": 0}, "timeout"),
            ({"timeout": -1}, "timeout"),
            ({"timeout": 3601}, "at most 3600"),
            ({"timeout": "x"}, "timeout"),
            ({"secret": "short"}, "16 to 200"),
            ({"secret": "x" * 201}, "16 to 200"),
            ({"secret": "whsec_" + "?" * 20}, "base64"),
            ({"secret": ["x" * 20] * 6}, "at most 5"),
            ({"secret": "ä" * 20}, "ASCII"),
        ],
    )
    def test_refused(self, options: dict[str, Any], why: str) -> None:
        with pytest.raises(UsageError, match=why) as raised:
            make_call("https://example.org/", **options)
        assert CANARY not in str(raised.value)

    @pytest.mark.req("H03")
    def test_timeouts(self) -> None:
        assert make_call("https://example.org/").timeout_s == 30
        assert make_call("https://example.org/", timeout=timedelta(hours=1)).timeout_s == 3600
        assert make_call("https://example.org/", timeout="90s").timeout_s == 90

    def test_bodies(self) -> None:
        assert make_call("https://example.org/", body="ä").content == "ä".encode()
        assert make_call("https://example.org/", body=b"\0\xff").content == b"\0\xff"
        sent = make_call("https://example.org/", json={"a": [1, "ä"]})
        assert sent.content == '{"a":[1,"ä"]}'.encode()
        assert sent.headers["Content-Type"].get_secret_value() == "application/json"
        own = make_call("https://example.org/", json=1, headers={"content-type": "application/x+json"})
        assert list(own.headers) == ["content-type"]
        assert make_call("https://example.org/", method="get").method == "GET"


class TestStored:
    def test_it_comes_back(self, key: str | None) -> None:
        call = make_call(
            f"https://example.org/a?token={CANARY}", method="PUT", body=b"\0\xff", headers={"X": "y"}, secret=["s" * 20, "t" * 20],
            timeout=5,
        )  # fmt: skip
        back: HttpCall = SCHEMA.decode(stored(call), {"job": MINE})["call"]
        assert back == call
        assert (back.content, back.target.query) == (b"\0\xff", f"token={CANARY}")

    @pytest.mark.req("H11")
    def test_nothing_of_it_can_be_read(self, key: str | None) -> None:
        call = make_call(
            f"https://example.org/a?token={CANARY}", json={"password": CANARY}, headers={"X-Key": CANARY}, secret=CANARY + "x" * 10
        )
        text = stored(call)
        assert CANARY not in text
        assert CANARY not in repr(call)
        payload = json.loads(text)
        assert (payload["url"], list(payload["headers"])) == ("https://example.org/a", ["X-Key", "Content-Type"])
        hidden = [payload["query"], payload["body"], *payload["headers"].values(), *payload["secrets"]]
        assert all(each.startswith("rota-secret:" if key else "rota-open:") for each in hidden)

    def test_the_same_call_is_stored_the_same(self, key: str | None) -> None:
        """By that a repeated request is known."""
        one, other = (stored(make_call("https://example.org/?a=b", json={"a": 1})) for _ in range(2))
        assert one == other

    def test_what_looks_like_something_stored_is_only_text(self, key: str | None) -> None:
        call = make_call("https://example.org/", body="rota-open:1:aGVsbG8=", headers={"X": "rota-secret:1:x"})
        back: HttpCall = SCHEMA.decode(stored(call), {"job": MINE})["call"]
        assert back.content == b"rota-open:1:aGVsbG8="
        assert back.headers["X"].get_secret_value() == "rota-secret:1:x"

    @pytest.mark.parametrize(
        "payload",
        [
            {},
            {"url": "http://x y/"},
            {"url": "http://x/", "headers": {"Host": CANARY}},
            {"url": "http://x/", "headers": {"X": f"{CANARY}\n"}},
            {"url": "http://x/", "timeout_s": 1e9},
            {"url": "http://x/", "body": "?", "binary": True},
            {"url": "http://x/", "method": CANARY},
            {"url": "http://x/", "secrets": [CANARY[:5]]},
            {"url": "http://x/", "body": 7},
            {"url": "http://x/", "more": CANARY},
            {"url": "http://x/", "body": "rota-open:1:???"},
            {"url": "http://x/", "body": f"rota-secret:1:{CANARY}"},
        ],
    )
    def test_what_comes_in_another_way_is_looked_at_too(self, key: str | None, payload: dict[str, Any]) -> None:
        """By SQL, by the task's name, by an edit."""
        with pytest.raises(PayloadError) as raised:
            SCHEMA.decode(json.dumps(payload), {"job": MINE})
        assert CANARY not in str(raised.value)
        with pytest.raises(PayloadError):
            SCHEMA.encode_json(payload)

    def test_keys_are_changed_without_a_loss(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(secret_module, "_keys", ())
        monkeypatch.setattr(secret_module, "_required", False)
        texts = [stored(make_call("https://example.org/", body="hello"))]
        for keys in ("a" * 32, "b" * 32 + "," + "a" * 32):
            secret_module.use_keys(keys)
            texts.append(stored(make_call("https://example.org/", body="hello")))
        assert len(set(texts)) == 3
        assert [SCHEMA.decode(text, {"job": MINE})["call"].content for text in texts] == [b"hello"] * 3
