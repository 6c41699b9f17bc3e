"""Signed messages by the Standard Webhooks specification: who receives one knows whose it is, and when it was sent."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as random
from collections.abc import Mapping, Sequence
from time import time

from rota.errors import AuthError
from rota.model.http_call import read_secret

TOLERANCE_S = 300
SECRET_PREFIX = "whsec_"


def new_secret() -> str:
    """A secret to sign with."""
    return SECRET_PREFIX + base64.b64encode(random.token_bytes(32)).decode()


def sign(secrets: Sequence[str], id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of a message: its id, which is the same however often it is sent, the time, and a signature by each secret."""
    headers = {"webhook-id": id, "webhook-timestamp": str(at)}
    if secrets:
        headers["webhook-signature"] = " ".join(_signature(secret, id, str(at), body) for secret in secrets)
    return headers


def verify(
    secrets: str | Sequence[str], headers: Mapping[str, str], body: bytes, *, tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> None:  # fmt: skip
    """For who receives a message: AuthError unless one of the secrets has signed it, lately."""
    given = {name.lower(): value for name, value in headers.items()}
    try:
        id, stamp, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise AuthError(f"the message is not signed: it has no header {missing.args[0]}") from None
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise AuthError("the header webhook-timestamp is not a time in whole seconds since 1970")
    if abs((time() if now is None else now) - int(stamp)) > tolerance_s:
        raise AuthError(f"the message was not sent within {tolerance_s:g} s: somebody may have kept it, or a clock is wrong")
    wanted = [_signature(secret, id, stamp, body) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    # Each is compared with each, in a time that does not say how near a guess was.
    matches = [_same(one, other) for one in signatures.split(" ") for other in wanted]
    if not any(matches):
        raise AuthError("the message was signed with another secret, or changed on its way")


def _signature(secret: str, id: str, stamp: str, body: bytes) -> str:
    digest = hmac.new(read_secret(secret), f"{id}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _same(given: str, wanted: str) -> bool:
    version, _, text = given.partition(",")
    if version != "v1":
        return False
    try:
        return hmac.compare_digest(base64.b64decode(text), base64.b64decode(wanted[3:]))
    except (binascii.Error, ValueError):
        return False
