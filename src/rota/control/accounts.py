"""Accounts: who there is, with which role, and the links by which they sign in."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from urllib.parse import urlencode
from uuid import UUID

from rota.config import AuthSettings, Settings
from rota.control.access import Actor
from rota.control.audit import record
from rota.control.servers import server_url
from rota.db.connection import AsyncConn
from rota.errors import AuthError, Conflict, NotFound, UsageError
from rota.model.email import parse_email
from rota.model.filters import check_text
from rota.model.ids import new_id
from rota.store import accounts as store
from rota.store.accounts import Account

AccountRole = Literal["admin", "operator", "read_only", "user"]  # one that a person can have

MAX_LIMIT = 1000
MAX_SOURCES = 20  # of an account: the networks from which it signed in last
FIRST_ADMIN = "admin@localhost"
SIGN_IN_PATH = "/auth/sign-in"
VERIFY_PATH = "/auth/verify"


@dataclass(frozen=True, slots=True)
class AccountPage:
    """Some accounts by address; `next` is where the following page begins, None when there is none."""

    items: list[Account]
    next: str | None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Somebody who has just signed in: the session's number, and for a browser the value of its cookie."""

    account: Account
    session_id: UUID
    cookie: str | None
    from_at: datetime
    until_at: datetime


async def create_account(conn: AsyncConn, actor: Actor, email: str, *, role: str = "user") -> Account:
    """Makes an account; Conflict if the address has one."""
    address = parse_email(email)
    _check_role(role)
    async with conn.transaction():
        made = await store.create(conn, email=address, role=role)
        if made is None:
            raise Conflict(f"{address} has an account already: `rota users set-role {address} {role}` gives it another role")
        await record(conn, actor, "users.create", address, {"role": role})
    return made


async def list_accounts(conn: AsyncConn, *, after: str = "", limit: int = 100) -> AccountPage:
    """Accounts by address."""
    check_text("after", after)
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    found = await store.read_all(conn, after=after, limit=limit + 1)
    return AccountPage(found[:limit], found[limit - 1].email if len(found) > limit else None)


async def get_account(conn: AsyncConn, who: UUID | str) -> Account:
    """The account of this number, or of this address."""
    found = await store.get(conn, who) if isinstance(who, UUID) else await store.find(conn, email=parse_email(who))
    if found is None:
        raise NotFound(f"there is no account {who}: `rota users list` shows those there are")
    return found


async def set_role(conn: AsyncConn, actor: Actor, who: UUID | str, role: str) -> Account:
    """Gives an account another role, at once; the last admin stays one."""
    _check_role(role)
    async with conn.transaction():
        account = await get_account(conn, who)
        if role != "admin":
            await _keep_an_admin(conn, account, "be given another role")
        changed = await store.set_role(conn, account.id, role=role)
        assert changed is not None
        await record(conn, actor, "users.set_role", account.email, {"role": role, "was": account.role})
    return changed


async def disable_account(conn: AsyncConn, actor: Actor, who: UUID | str) -> Account:
    """Ends an account's sessions, and lets neither these nor its tokens be used from now on; the last admin stays."""
    async with conn.transaction():
        account = await get_account(conn, who)
        await _keep_an_admin(conn, account, "be disabled")
        changed = await store.set_disabled(conn, account.id, disabled=True)
        assert changed is not None
        ended = await store.end_sessions(conn, account.id)
        await record(conn, actor, "users.disable", account.email, {"sessions": ended})
    return changed


async def enable_account(conn: AsyncConn, actor: Actor, who: UUID | str) -> Account:
    """Lets an account sign in again; its tokens are good again too."""
    async with conn.transaction():
        account = await get_account(conn, who)
        changed = await store.set_disabled(conn, account.id, disabled=False)
        assert changed is not None
        await record(conn, actor, "users.enable", account.email)
    return changed


# Links


async def request_link(conn: AsyncConn, settings: Settings, email: str, *, peer: str) -> str | None:
    """Return a new link's token for an address; None if nothing is to be mailed: the address is unknown, or over a limit.

    `peer` is the network that the request comes from. Over a limit, the last link that was mailed is good for a while.

    One statement in every case, so that the time it takes does not tell them apart.
    """
    auth = settings.auth
    token = secrets.token_urlsafe(32)
    to_mail = await store.request_link(
        conn,
        email=parse_email(email),
        peer=peer,
        hash=hash_of(token),
        minutes=auth.link_minutes,
        per_hour=auth.links_per_hour,
        may_sign_up=may_sign_up(settings),
    )
    return token if to_mail else None


async def sign_in_link(conn: AsyncConn, settings: Settings, who: UUID | str, *, base: str | None = None) -> str:
    """A link that signs somebody in, for whoever has the database; `base` is the server's address if it does not answer yet."""
    account = await get_account(conn, who)
    if account.disabled_at is not None:
        raise Conflict(f"{account.email} is disabled: `rota users enable {account.email}` first")
    token = secrets.token_urlsafe(32)
    await store.add_link(conn, hash=hash_of(token), email=account.email, purpose="sign_in", minutes=settings.auth.link_minutes)
    return link_url(base or await server_url(conn, settings), token)


async def bootstrap_link(conn: AsyncConn, settings: Settings, *, email: str = FIRST_ADMIN, base: str | None = None) -> str | None:
    """A link that makes the first admin, once; None when there is an admin."""
    token = secrets.token_urlsafe(32)
    address = parse_email(email)
    made = await store.add_link(conn, hash=hash_of(token), email=address, purpose="bootstrap", minutes=settings.auth.link_minutes)
    return link_url(base or await server_url(conn, settings), token) if made else None


async def admin_link(conn: AsyncConn, settings: Settings, *, base: str | None = None) -> str | None:
    """A link that signs an admin in, who is made if there is none: what `rota dev` prints."""
    link = await bootstrap_link(conn, settings, base=base)
    admin = await store.first_admin(conn) if link is None else None
    return link if admin is None else await sign_in_link(conn, settings, admin.id, base=base)


# Sessions


async def sign_in(conn: AsyncConn, auth: AuthSettings, token: str, *, browser: bool, peer: str | None = None) -> SignedIn:
    """Use a link's token, once; AuthError when it is not valid (any more). `peer` is the network that the request comes from."""
    cookie = secrets.token_urlsafe(32) if browser else None
    session_id = new_id()
    async with conn.transaction():
        account = await store.claim_link(conn, hash=hash_of(token))
        if account is None:
            # Not an error for the transaction: that the link was used stays written.
            refused = AuthError("this link has been used already, is too old, or never was one: ask for a new one")
        else:
            hours = auth.session_hours if browser else auth.jwt_hours
            from_at, until_at = await store.open_session(
                conn, id=session_id, hash=None if cookie is None else hash_of(cookie), account=account.id, hours=hours
            )
            if peer is not None:
                await store.note_source(conn, account.id, source=peer, kept=MAX_SOURCES)
            actor = Actor(account.email, role_of(account), account.id, "session" if browser else "jwt")
            await record(conn, actor, "sign_in", account.email)
            return SignedIn(account, session_id, cookie, from_at, until_at)
    raise refused


def hash_of(secret: str) -> bytes:
    """What is stored of a secret: it is long and random, so that one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def may_sign_up(settings: Settings) -> bool:
    """Whether an address without an account gets one by signing in."""
    return settings.auth.signup == "open" or (settings.auth.signup == "auto" and settings.app.env == "local")


def link_url(base: str, token: str, *, path: str = SIGN_IN_PATH, next: str | None = None) -> str:
    """The address that a link leads to."""
    return f"{base}{path}?{urlencode({'token': token} | ({} if next is None else {'next': next}))}"


async def _keep_an_admin(conn: AsyncConn, account: Account, what: str) -> None:
    """Refuses to go on when the account is the last admin; holds all of them until the transaction ends."""
    admins = await store.lock_admins(conn)
    if admins == [account.id]:
        raise Conflict(f"{account.email} is the last admin and cannot {what}: make another one first")


def _check_role(role: str) -> None:
    if role not in get_args(AccountRole):
        raise UsageError(f"role={role!r} is unknown: one of {', '.join(get_args(AccountRole))}")


def role_of(account: Account) -> AccountRole:
    """Its role, as what a person can have."""
    role: AccountRole = account.role  # type: ignore[assignment]  # the database has no other
    return role
