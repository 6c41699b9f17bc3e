"""Tokens for programs: made, listed, revoked. The token itself is shown once and not stored."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from rota.control import accounts
from rota.control.access import DEFAULT, OWN, Actor, Policy, check
from rota.control.audit import record
from rota.db.connection import AsyncConn
from rota.errors import AuthError, Conflict, Forbidden, NotFound, UsageError
from rota.model.filters import check_text
from rota.store import api_tokens as store
from rota.store.accounts import Account
from rota.store.api_tokens import TokenRecord

PREFIX = "rota_"
MAX_NAME = 200
MAX_DAYS = 3650
MAX_LIMIT = 1000
HINT_CHARS = 10
SCOPES = (*OWN, *(operation for operation, roles in DEFAULT.items() if roles))  # what a token can be for


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made, the only time that it is seen."""

    token: str
    record: TokenRecord


@dataclass(frozen=True, slots=True)
class TokenPage:
    """Some tokens, newest first; `next` is where the following page begins, None when there is none."""

    items: list[TokenRecord]
    next: int | None


async def create_token(
    conn: AsyncConn,
    actor: Actor,
    policy: Policy,
    owner: UUID | str,
    name: str,
    *,
    scopes: Sequence[str] | None = None,
    days: int | None = None,
) -> NewToken:
    """Create a token of an account, for these operations or for all that the account may do, for so many days or until revoked.

    An actor who uses a token creates one of the same account only, with scopes of that token, which expires and is revoked with it.
    """
    check_text("name", name)
    if not 1 <= len(name.strip()) <= MAX_NAME:
        raise UsageError(f"name={name[:300]!r} is not text of 1 to {MAX_NAME} characters")
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise UsageError(f"days={days!r} is out of range: from 1 to {MAX_DAYS}")
    async with conn.transaction():
        account = await accounts.get_account(conn, owner)
        if account.disabled_at is not None:
            raise Conflict(f"{account.email} is disabled: `rota users enable {account.email}` first")
        chosen = None if scopes is None else _check_scopes(scopes, account, policy)
        good_for = None if days is None else timedelta(days=days)
        if actor.token is not None:
            await _check_parent(conn, actor.token, account, chosen, good_for)
        token = PREFIX + secrets.token_urlsafe(32)
        id = await store.add(
            conn,
            hash=accounts.hash_of(token),
            hint=token[:HINT_CHARS],
            account=account.id,
            parent=actor.token,
            name=name.strip(),
            scopes=chosen,
            created_by=actor.name,
            good_for=good_for,
        )
        assert id is not None
        made = await store.get(conn, id)
        assert made is not None
        detail = {"number": id, "name": made.name, "scopes": chosen, "days": days}
        if actor.token is not None:
            detail["parent"] = actor.token
        await record(conn, actor, "tokens.create", account.email, detail)
    return NewToken(token, made)


async def list_tokens(
    conn: AsyncConn, *, owner: UUID | str | None = None, before: int | None = None, limit: int = 100
) -> TokenPage:
    """The newest tokens, of one account or of all; those that are over too."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    account = None if owner is None else (await accounts.get_account(conn, owner)).id
    found = await store.read_all(conn, account=account, before=before, limit=limit + 1)
    return TokenPage(found[:limit], found[limit - 1].id if len(found) > limit else None)


async def revoke_token(conn: AsyncConn, actor: Actor, id: int, *, owner: UUID | None = None) -> TokenRecord:
    """Revoke a token and all that were created with it, at once; with `owner`, only a token of that account."""
    async with conn.transaction():
        if not -(2**63) <= id < 2**63 or not await store.lock_family(conn, id, account=owner):
            raise NotFound(f"Token not found: {id}. Run `rota tokens list` to see all tokens.")
        revoked = await store.revoke(conn, id, account=owner)
        ended = await store.get(conn, id)
        assert ended is not None
        detail = {"number": id, "name": ended.name, "descendants": [each for each in revoked if each != id]}
        await record(conn, actor, "tokens.revoke", ended.email, detail)
    return ended


async def _check_parent(
    conn: AsyncConn, id: int, account: Account, scopes: Sequence[str] | None, good_for: timedelta | None
) -> None:
    """Refuse what would let a token create one that can do more than itself, or outlives it."""
    parent = await store.get_parent(conn, id, good_for=good_for) if await store.lock_family(conn, id) else None
    if parent is None:
        raise AuthError(f"token {id} is not valid any more: it was revoked or has expired")
    if parent.account_id != account.id:
        raise Forbidden(
            f"owner={account.email}: a token creates tokens of its own account only. "
            "Sign in, or use `rota tokens create` on the database, to create tokens of other accounts."
        )
    if parent.scopes is not None and (scopes is None or not set(parent.scopes).issuperset(scopes)):
        raise Forbidden(f"a token creates only tokens for what it may do itself: scopes out of {', '.join(parent.scopes)}")
    if parent.outlived and parent.expires_at is not None:
        raise Forbidden(
            f"days={good_for.days if good_for else None}: a token creates none that outlives it, and this one expires at "
            f"{parent.expires_at.isoformat(timespec='seconds')}. Ask for fewer days, or omit days to let both expire together."
        )


def _check_scopes(scopes: Sequence[str], account: Account, policy: Policy) -> list[str]:
    """The scopes in order and once each; refused if one is unknown, or more than the account's role may do."""
    chosen = sorted(set(scopes))
    if not chosen:
        raise UsageError("scopes is empty, and the token would be good for nothing: name operations, or leave it out")
    stands_for = Actor(account.email, accounts.role_of(account), account.id)
    for scope in chosen:
        if scope not in SCOPES:
            raise UsageError(f"scopes has {scope!r:.100}, which is no operation: some of {', '.join(SCOPES)}")
        if scope not in OWN:
            try:
                check(policy, stands_for, scope)
            except Forbidden:
                raise UsageError(
                    f"scopes has {scope!r}, which {account.email}, who is {account.role}, may not do: "
                    "a token does no more than its owner"
                ) from None
    return chosen
