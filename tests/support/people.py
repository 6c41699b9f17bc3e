"""Accounts for tests of the server, and what they send along with a request: a cookie, a JWT, a token."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.serving import Serving

from rota.control import accounts
from rota.store.accounts import Account

Headers = dict[str, str]


async def make(server: Serving, email: str, role: str = "user") -> Account:
    """Make an account."""
    return await server.state.control.create_user(email, role=role)


async def link_token(server: Serving, email: str) -> str:
    """Give the token of a sign-in link of an account."""
    async with server.state.connection() as conn:
        return token_of(await accounts.sign_in_link(conn, server.state.settings, email))


def token_of(link: str) -> str:
    """Give the token in a link."""
    return parse_qs(urlsplit(link).query)["token"][0]


async def cookie(server: Serving, email: str) -> Headers:
    """Sign a browser in; what it sends from then on."""
    token = await link_token(server, email)
    async with server.state.connection() as conn:
        known = await accounts.sign_in(conn, server.state.settings.auth, token, browser=True)
    return {"Cookie": f"rota={known.cookie}"}


async def jwt(server: Serving, email: str) -> Headers:
    """Sign a program in; what it sends from then on."""
    async with server.client.get("/auth/verify", params={"token": await link_token(server, email)}) as answer:
        assert answer.status == 200
        return {"Authorization": f"Bearer {(await answer.json())['token']}"}


async def api_token(server: Serving, email: str, *scopes: str) -> Headers:
    """Make a token of an account; what a program sends with it."""
    made = await server.state.control.create_token(email, "for a test", scopes=scopes or None)
    return {"Authorization": f"Bearer {made.token}"}


async def call(server: Serving, headers: Headers, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request; its status and what its body says."""
    async with server.client.request(method, path, headers=headers, json=body) as answer:
        return answer.status, await answer.json(content_type=None) if answer.status != 204 else None
