"""Who asks, and whether they may: every route has exactly one of `allow`, `signed_in` and `public`.

    @router.get("/jobs")
    async def list_jobs(control: Annotated[ControlPlane, Depends(allow("jobs.read"))]) -> …

Somebody is known by the session cookie, by `Authorization: Bearer` with a JWT of `/auth/verify`, or by one with an API token. Each
is one statement by its index, which sees at once that a session was ended, or an account disabled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import urlsplit
from uuid import UUID

from starlette.requests import Request

from rota.control.access import Actor, Role
from rota.control.accounts import hash_of
from rota.control.api_tokens import PREFIX
from rota.control.plane import ControlPlane
from rota.errors import AuthError, CrossOrigin, Forbidden
from rota.server.scope import PRINCIPAL
from rota.server.state import State, state_of
from rota.store.accounts import Holder

Via = Literal["session", "jwt", "token"]

RULE = "rota_rule"  # the attribute of a dependency that says what it asks for; `rule_of` reads it
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_CREDENTIAL = 4096

_NOBODY = "sign in first: with the session cookie, or with `Authorization: Bearer` and a token"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who has signed in."""

    account_id: UUID
    email: str
    role: Role
    via: Via
    scopes: frozenset[str] | None = None  # of a token; None: whatever the role may
    credential: UUID | int = 0  # the number of the session or token

    @property
    def actor(self) -> Actor:
        """Who acts, as the control plane and the audit know them."""
        token = self.credential if isinstance(self.credential, int) and self.via == "token" else None
        return Actor(self.email, self.role, self.account_id, self.via if token is None else f"token {token}", self.scopes, token)


def allow(operation: str) -> Callable[[Request], Awaitable[ControlPlane]]:
    """A dependency that gives the control plane of who asks; 401 if nobody does, 403 if they may not do this."""

    async def allowed(request: Request) -> ControlPlane:
        principal = await principal_of(request)
        control = state_of(request).control.acting_as(principal.actor)
        control.require(operation)
        return control

    setattr(allowed, RULE, operation)
    return allowed


def signed_in() -> Callable[[Request], Awaitable[Principal]]:
    """A dependency that gives who asks, whatever their role; 401 if nobody does. For what everybody has of their own.

    A token with scopes needs `own.read` to look at it and `own.change` for everything else.
    """

    async def known(request: Request) -> Principal:
        principal = await principal_of(request)
        needed = "own.read" if request.method in SAFE_METHODS else "own.change"
        if principal.scopes is not None and needed not in principal.scopes:
            raise Forbidden(f"this token of {principal.email} may not do {needed}: make one with that scope")
        return principal

    setattr(known, RULE, "signed in")
    return known


def public() -> Callable[[], Awaitable[None]]:
    """A dependency that lets everybody pass, and says so."""

    async def open_to_all() -> None:  # async, or it would be called in a thread
        return None

    setattr(open_to_all, RULE, "public")
    return open_to_all


def rule_of(dependency: Any) -> str | None:
    """What a route's dependency asks for: an operation, "signed in", "public"; None if it is none of these."""
    rule: str | None = getattr(dependency, RULE, None)
    return rule


async def principal_of(request: Request) -> Principal:
    """Who asks; AuthError if nobody does, or with something that is not good (any more)."""
    state = state_of(request)
    given = request.headers.getlist("authorization")
    if given:
        # What is given there counts, also when it is wrong: a browser's cookie must not step in for a token.
        scheme, _, value = given[0].partition(" ")
        value = value.strip()
        if len(given) > 1 or scheme.lower() != "bearer" or not 1 <= len(value) <= MAX_CREDENTIAL:
            raise AuthError("the header Authorization must be `Bearer` and a token")
        principal = await _by_token(state, value) if value.startswith(PREFIX) else await _by_jwt(state, value)
    else:
        value = request.cookies.get(cookie_name(request), "")
        if not 1 <= len(value) <= MAX_CREDENTIAL:
            raise AuthError(_NOBODY)
        principal = request.scope[PRINCIPAL] = await _by_cookie(state, value)
        check_origin(request)
    request.scope[PRINCIPAL] = principal
    return principal


def cookie_name(request: Request) -> str:
    """The session cookie's name: over https one that no other site, and no page without https, can set."""
    return "__Host-rota" if is_https(request) else "rota"


def is_https(request: Request) -> bool:
    """Whether people reach the server by https."""
    url = state_of(request).settings.server.url
    return request.url.scheme == "https" if url is None else url.startswith("https://")


def check_origin(request: Request) -> None:
    """Refuses a change that another site's page asks the browser for. What no browser sends says nothing of where it is from."""
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        ours = site == "same-origin"
    elif origin is not None:
        ours = origin in _origins(request)
    else:
        ours = True
    if not ours:
        raise CrossOrigin("this request comes from a page of another site: change things from a page of this server only")


def _origins(request: Request) -> set[str]:
    origins = {f"{'https' if is_https(request) else 'http'}://{request.headers.get('host', '')}"}
    url = state_of(request).settings.server.url
    if url is not None:
        parts = urlsplit(url)
        origins.add(f"{parts.scheme}://{parts.netloc}")
    return origins


async def _by_cookie(state: State, value: str) -> Principal:
    return _principal(await state.holders.by_cookie.ask(hash_of(value)), "session")


async def _by_jwt(state: State, value: str) -> Principal:
    claims = state.signer.read(value)
    holder = await state.holders.by_jwt.ask(claims.session_id)
    return _principal(holder if holder is not None and holder.id == claims.account_id else None, "jwt")


async def _by_token(state: State, value: str) -> Principal:
    return _principal(await state.holders.by_token.ask(hash_of(value)), "token")


def _principal(holder: Holder | None, via: Via) -> Principal:
    if holder is None:
        raise AuthError("you are not signed in any more, or the token has been revoked: sign in again")
    scopes = None if holder.scopes is None else frozenset(holder.scopes)
    return Principal(holder.id, holder.email, cast(Role, holder.role), via, scopes, holder.credential)
