"""Secrets are taken out of what people read, quickly, and whatever is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.support.effort import effort_bounded

from rota.model import redact as module
from rota.model.redact import HIDDEN, Shown, know_secrets, mark_secret, redact, redact_text, secrets_known

CANARY = "c4n4ry-5ecret/value"


@pytest.mark.req("O01")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nothing to hide: 7 tokens=120", "nothing to hide: 7 tokens=120"),
        ("cannot reach postgresql://me:s3cret@db/x", f"cannot reach postgresql://me:{HIDDEN}@db/x"),
        ("redis://:pw@host", f"redis://:{HIDDEN}@host"),
        ("https://example.org:8000/a@b", "https://example.org:8000/a@b"),
        ("host=db password=hunter2 user=me", f"host=db password={HIDDEN} user=me"),
        ("password='two words' user=me", f"password={HIDDEN} user=me"),
        ("{'password': 'it\\'s', 'user': 'me'}", f"{{'password': {HIDDEN}, 'user': 'me'}}"),
        ('{"api_key": "abc", "n": 1}', f'{{"api_key": {HIDDEN}, "n": 1}}'),
        ("smtp_passwd: x", f"smtp_passwd: {HIDDEN}"),
        ("password=12345678", f"password={HIDDEN}"),
        ("GET /?access_token=abc&page=2", f"GET /?access_token={HIDDEN}&page=2"),
        ("Authorization: Bearer abc def", f"Authorization: {HIDDEN}"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz', 'Accept': '*/*'}", f"{{'Authorization': {HIDDEN}, 'Accept': '*/*'}}"),
        ("Cookie: a=b; c=d\nHost: x", f"Cookie: {HIDDEN}\nHost: x"),
        ("sent bearer abcd.efgh to them", f"sent bearer {HIDDEN} to them"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln end", f"jwt {HIDDEN} end"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest", f"{HIDDEN}\nrest"),
        ("PASSWORD=abc", f"PASSWORD={HIDDEN}"),
        ("the token was refused", "the token was refused"),
        ("password=SecretStr('**********')", f"password={HIDDEN}"),
    ],
)
def test_text(text: str, shown: str) -> None:
    assert redact_text(text) == shown
    assert redact_text(shown) == shown  # once is as good as twice


@dataclass
class Account:
    user: str
    password: str


class Mail(BaseModel):
    to: str
    api_key: str


@pytest.mark.req("O01")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"headers": {"Authorization": CANARY, "Accept": "x"}}, {"headers": {"Authorization": HIDDEN, "Accept": "x"}}),
        ({"secrets": {"mail": CANARY, "list": [CANARY]}}, {"secrets": {"mail": HIDDEN, "list": [HIDDEN]}}),
        ({"tokens": 120, "token": CANARY, "password": 1234}, {"tokens": 120, "token": HIDDEN, "password": HIDDEN}),
        ([{"cookie": CANARY.encode()}, ("a", 1)], [{"cookie": HIDDEN}, ["a", 1]]),
        ({"account": Account("me", CANARY)}, {"account": {"user": "me", "password": HIDDEN}}),
        ({"error": ValueError(f"password={CANARY}")}, {"error": f"password={HIDDEN}"}),
        ({"mail": Mail(to="me", api_key=CANARY)}, {"mail": f"to='me' api_key={HIDDEN}"}),
        ({"token": "", "passed": "yes", "secret": None, "token_ok": True}, None),
    ],
)
def test_nested(value: Any, shown: Any) -> None:
    assert redact(value) == (value if shown is None else shown)


def test_values_that_were_marked() -> None:
    secret = 'pa"ss/wörd'
    with secrets_known([secret]):
        for written in (secret, f"x{secret}y", 'pa\\"ss/wörd', "pa%22ss%2Fw%C3%B6rd"):
            assert redact_text(f"a {written} b").count(HIDDEN) == 1
        assert redact({"field": [secret], secret: 1}) == {"field": [HIDDEN], HIDDEN: 1}
    assert redact_text(secret) == secret


@pytest.mark.parametrize("before", ["password=", "Bearer ", "token: ", "https://u:", "Cookie: "])
def test_a_pattern_does_not_cut_a_known_secret_in_two(before: str) -> None:
    with secrets_known(["Bearer two words/and more"]):
        assert "more" not in redact_text(f"{before}Bearer two words/and more")


def test_the_longer_secret_goes_first() -> None:
    with secrets_known(["abcdef", "abcdefghij"]):
        assert redact_text("abcdefghij") == HIDDEN


def test_marked_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_marked", {})
    mark_secret(CANARY)
    mark_secret("abc")  # too short: it would be found in every word
    assert redact_text(f"x {CANARY} abc") == f"x {HIDDEN} abc"
    for number in range(1500):
        mark_secret(f"secret-{number}")
    assert len(module._marked) == module.MAX_MARKED


def test_a_dict_within_itself() -> None:
    ring: dict[str, Any] = {"password": CANARY}
    ring["self"] = ring
    assert redact(ring) == {"password": HIDDEN, "self": {"password": HIDDEN, "self": module.BEYOND}}
    bush: list[Any] = [CANARY]
    for _ in range(60):
        bush = [bush, bush]
    assert CANARY not in repr(redact(bush))


TEXTS = st.text(alphabet=st.sampled_from("abcp:=/@'\"\\ \n{}[](),;&.-_%eyJ0=") | st.characters(), max_size=300)
SEEDED = st.lists(
    st.sampled_from(
        ["password", "token=", "Authorization: ", "Bearer ", "://", "Cookie:", "eyJ", "-----BEGIN PRIVATE KEY-----", "["]
    )
    | TEXTS,
    max_size=8,
).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | SEEDED | st.binary(max_size=20) | st.just(object()),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(SEEDED | st.integers(), each, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(SEEDED, st.lists(TEXTS, max_size=3))
@example("[redacted]" * 5, ["redacted", "[redacted]", "acte"])
def test_text_never_fails_or_grows_without_bound(text: str, secrets: list[str]) -> None:
    with secrets_known(secrets):
        clean = redact_text(text)
    assert len(clean) <= len(HIDDEN) * (len(text) + 1) * (1 + len(secrets))
    know_secrets(())


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_values_never_fail(value: Any) -> None:
    redact(value)


@settings(max_examples=200, deadline=None)
@given(SEEDED, SEEDED)
def test_a_known_secret_is_never_seen(before: str, after: str) -> None:
    with secrets_known([CANARY]):
        assert CANARY not in redact_text(before + CANARY + after)
        assert CANARY not in repr(redact({before: [CANARY + after], "n": {CANARY: 1}}))


@pytest.mark.parametrize(
    "text", ["a" * 99_999, "password" * 12_000, "token=" * 16_000, "://a:" * 20_000, "'\"\\" * 30_000 + "pwd='"]
)
def test_no_text_takes_long(text: str) -> None:
    with effort_bounded():
        redact_text(text)


def test_a_mail_that_is_sent_to_the_log_is_shown_and_nothing_beside_it() -> None:
    line = {"body": Shown("https://x/?token=abcdef"), "error": "token=abcdef", "password": "abcdef"}
    assert redact(line) == {"body": "https://x/?token=abcdef", "error": f"token={HIDDEN}", "password": HIDDEN}
    assert type(redact(line)["body"]) is str
