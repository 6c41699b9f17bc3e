"""Signed messages: the vectors of the Standard Webhooks specification, and what a receiver must refuse."""

from __future__ import annotations

import base64

import pytest

from rota.errors import AuthError, UsageError
from rota.outbound.signature import new_secret, sign, verify

pytestmark = pytest.mark.req("H04")

# From the specification's own libraries: secret, id, time, body, signature.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
OTHER = "whsec_" + base64.b64encode(b"another secret, 24 bytes").decode()


def headers(**changes: str) -> dict[str, str]:
    return {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": SIGNATURE} | {
        name.replace("_", "-"): value for name, value in changes.items()
    }


def test_the_vector_of_the_specification() -> None:
    assert sign([SECRET], ID, AT, BODY) == headers()
    verify(SECRET, headers(), BODY, now=AT)


def test_several_secrets_while_one_is_replaced() -> None:
    both = sign([OTHER, SECRET], ID, AT, BODY)
    assert SIGNATURE in both["webhook-signature"].split(" ")
    for known in (SECRET, OTHER, [SECRET], ["x" * 20, OTHER]):
        verify(known, both, BODY, now=AT)
    verify([OTHER, SECRET], headers(), BODY, now=AT)


def test_names_of_headers_are_read_in_any_case() -> None:
    verify(SECRET, {name.title(): value for name, value in headers().items()}, BODY, now=AT)


@pytest.mark.parametrize(
    ("given", "body", "now", "why"),
    [
        (headers(), BODY + b" ", AT, "another secret, or changed"),
        (headers(webhook_id="msg_other"), BODY, AT, "another secret, or changed"),
        (headers(webhook_timestamp=str(AT + 1)), BODY, AT, "another secret, or changed"),
        (headers(), BODY, AT + 301, "not sent within 300 s"),
        (headers(), BODY, AT - 301, "not sent within 300 s"),
        (headers(webhook_timestamp="soon"), BODY, AT, "not a time"),
        (headers(webhook_timestamp="-1"), BODY, AT, "not a time"),
        (headers(webhook_timestamp="9" * 500), BODY, AT, "not a time"),
        (headers(webhook_timestamp="١٢"), BODY, AT, "not a time"),
        (headers(webhook_signature=""), BODY, AT, "another secret, or changed"),
        (headers(webhook_signature="v1,"), BODY, AT, "another secret, or changed"),
        (headers(webhook_signature="v1,???"), BODY, AT, "another secret, or changed"),
        (headers(webhook_signature="v1,ä"), BODY, AT, "another secret, or changed"),
        (headers(webhook_signature=SIGNATURE.replace("v1,", "v2,")), BODY, AT, "another secret, or changed"),
        (headers(webhook_signature=SIGNATURE.replace("v1,", "v1a,")), BODY, AT, "another secret, or changed"),
        (headers(webhook_signature=SIGNATURE[:-5]), BODY, AT, "another secret, or changed"),
        ({"webhook-id": ID, "webhook-timestamp": str(AT)}, BODY, AT, "no header webhook-signature"),
        ({}, BODY, AT, "no header webhook-id"),
    ],
)
def test_what_a_receiver_refuses(given: dict[str, str], body: bytes, now: float, why: str) -> None:
    with pytest.raises(AuthError, match=why):
        verify(SECRET, given, body, now=now)


def test_with_no_secret_there_is_no_signature() -> None:
    assert sign([], ID, AT, b"") == {"webhook-id": ID, "webhook-timestamp": str(AT)}
    with pytest.raises(AuthError):
        verify([], headers(), BODY, now=AT)


def test_new_secrets_are_long_and_differ() -> None:
    assert new_secret() != new_secret()
    assert len(base64.b64decode(new_secret().removeprefix("whsec_"))) == 32


def test_a_secret_that_is_none() -> None:
    with pytest.raises(UsageError, match="base64"):
        sign(["whsec_???"], ID, AT, BODY)
