"""JWTs: only ours are believed, a changed secret signs nobody out, and signing out holds at once."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import jwt
import psycopg
import pytest
from tests.support import people
from tests.support.serving import SECRET, Serving

from rota.contrib.testing.clock import Clock
from rota.errors import ConfigError
from rota.server.jwts import Signer

if TYPE_CHECKING:
    from tests.server.conftest import Serve

pytestmark = pytest.mark.req("H05")

ADA = "ada@example.org"
OLD, NEW = "old-" + "o" * 40, "new-" + "n" * 40


async def status(server: Serving, token: str) -> int:
    async with server.client.get("/auth/me", headers={"Authorization": f"Bearer {token}"}) as answer:
        return answer.status


async def good_token(server: Serving) -> str:
    await people.make(server, ADA)
    return (await people.jwt(server, ADA))["Authorization"].removeprefix("Bearer ")


def encode(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """Put a token together by hand, as libraries would not."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def taken_apart(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return jwt.get_unverified_header(token), jwt.decode(token, options={"verify_signature": False})


async def test_what_a_token_says(server: Serving) -> None:
    token = await good_token(server)
    header, claims = taken_apart(token)
    assert header["alg"] == "HS256"
    assert set(claims) == {"iss", "aud", "sub", "jti", "iat", "exp"}
    assert claims["exp"] - claims["iat"] == 24 * 3600
    assert await status(server, token) == 200


Forge = Callable[[dict[str, Any], dict[str, Any]], str]


def signed(key: str = SECRET, algorithm: str = "HS256") -> Forge:
    return lambda header, claims: jwt.encode(claims, key, algorithm, {**header, "alg": algorithm})


FORGERIES: dict[str, tuple[dict[str, Any], dict[str, Any], Forge]] = {
    "none": ({"alg": "none"}, {}, encode),
    "None": ({"alg": "None"}, {}, encode),
    "no algorithm": ({"alg": None}, {}, encode),
    "HS512 with our secret": ({}, {}, signed(algorithm="HS512")),
    "RS256 named, HS256 made": ({"alg": "RS256"}, {}, encode),
    "another secret": ({}, {}, signed("x" * 40)),
    "the empty secret": ({}, {}, encode),
    "an unknown kid": ({"kid": "0" * 16}, {}, signed()),
    "no kid": ({"kid": None}, {}, lambda header, claims: jwt.encode(claims, SECRET, "HS256", {"typ": header["typ"]})),
    "a kid that is a path": ({"kid": "../../../../dev/null"}, {}, encode),
    "a kid that is SQL": ({"kid": "x' UNION SELECT 'a"}, {}, signed("a" * 40)),
    "a kid that is a list": ({"kid": ["a"]}, {}, encode),
    "a key of its own": ({"jwk": {"kty": "oct", "k": "AAAA"}, "kid": "x"}, {}, encode),
    "a key from elsewhere": ({"jku": "http://127.0.0.1:1/keys", "kid": "x"}, {}, encode),
    "a critical extension": ({"crit": ["exp"]}, {}, lambda header, claims: jwt.encode(claims, SECRET, "HS256", header)),
    "another type": ({"typ": "JWT"}, {}, signed()),
    "no type": ({"typ": None}, {}, signed()),
    "another audience": ({}, {"aud": "rota:other"}, signed()),
    "audiences": ({}, {"aud": ["rota:default", "x"]}, signed()),
    "no audience": ({}, {"aud": None}, signed()),
    "another issuer": ({}, {"iss": "somebody"}, signed()),
    "expired": ({}, {"iat": 1, "exp": 1000}, signed()),
    "no end": ({}, {"exp": None}, signed()),
    "from the future": ({}, {"iat": int(time.time()) + 9999}, signed()),
    "another session": ({}, {"jti": str(uuid4())}, signed()),
    "somebody else": ({}, {"sub": str(uuid4())}, signed()),
    "a session that is none": ({}, {"jti": "x' OR 1=1"}, signed()),
    "an account that is a number": ({}, {"sub": 5}, signed()),
}


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")  # of who forges
async def test_a_forged_token_is_401(server: Serving) -> None:
    header, claims = taken_apart(await good_token(server))
    assert await status(server, signed()(header, claims)) == 200  # the forger's work is good enough
    answers = {}
    for name, (other_header, other_claims, forge) in FORGERIES.items():
        forged_header = {key: value for key, value in {**header, **other_header}.items() if value is not None}
        forged_claims = {key: value for key, value in {**claims, **other_claims}.items() if value is not None}
        answers[name] = await status(server, forge(forged_header, forged_claims))
    assert answers == dict.fromkeys(FORGERIES, 401)


async def test_what_is_no_token_is_401(server: Serving) -> None:
    for token in ("", ".", "..", "a.b.c", "e30.e30.", "x" * 10_000, "rota_", "rota_" + "x" * 43, "\xff.\xfe.\xfd"):
        assert await status(server, token) == 401, token


async def test_a_token_of_another_application_with_the_same_secret(serve: Serve) -> None:
    async with serve() as one, serve(app_name="other") as other:
        assert await status(other, await good_token(one)) == 401


async def test_a_new_secret_signs_nobody_out(serve: Serve) -> None:
    async with serve(auth_secret=OLD) as before, serve(auth_secret=f"{NEW}, {OLD}") as between, serve(auth_secret=NEW) as after:
        old = await good_token(before)
        new = (await people.jwt(between, ADA))["Authorization"].removeprefix("Bearer ")
        assert [await status(server, old) for server in (before, between, after)] == [200, 200, 401]
        assert [await status(server, new) for server in (before, between, after)] == [401, 200, 200]


def test_short_secrets_are_refused() -> None:
    for secrets in ("x" * 31, f"{NEW},short", ",", ""):
        with pytest.raises(ConfigError, match="fewer than 32 characters"):
            Signer(secrets, "default")


async def test_signing_out_ends_the_token_for_every_server(serve: Serve) -> None:
    async with serve() as one, serve() as other:
        await people.make(one, ADA)
        mine, another = await people.jwt(one, ADA), await people.jwt(one, ADA)
        async with other.client.post("/auth/logout", headers=mine) as answer:
            assert answer.status == 204
        for server in (one, other):
            assert await status(server, mine["Authorization"].removeprefix("Bearer ")) == 401
            assert await status(server, another["Authorization"].removeprefix("Bearer ")) == 200


async def test_a_token_ends_after_a_day_by_the_database_too(server: Serving, conn: psycopg.Connection[Any]) -> None:
    clock = Clock(conn)
    token = await good_token(server)
    clock.move(timedelta(hours=23, minutes=59))
    assert await status(server, token) == 200
    clock.move(timedelta(minutes=2))
    assert await status(server, token) == 401
