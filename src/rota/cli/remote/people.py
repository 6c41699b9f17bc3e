"""Accounts and tokens, over the API."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from rota.cli.remote.base import Remote, given
from rota.control.accounts import AccountPage
from rota.control.api_tokens import NewToken, TokenPage
from rota.server.paging import encode_cursor
from rota.store.accounts import Account
from rota.store.api_tokens import TokenRecord


class RemotePeople(Remote):
    """What admins do with accounts and tokens."""

    async def list_users(self, *, after: str = "", limit: int = 100) -> AccountPage:
        """Accounts by address."""
        query = {"cursor": encode_cursor("users", after) if after else None, "limit": limit}
        accounts, next = self._page(Account, "users", query=query)
        return AccountPage(accounts, None if next is None else accounts[-1].email)

    async def get_user(self, who: UUID | str) -> Account:
        """One account, by its number or its address."""
        return self._get(Account, "users", who)

    async def create_user(self, email: str, *, role: str = "user") -> Account:
        """Makes an account; Conflict if the address has one."""
        return self._post(Account, "users", body={"email": email, "role": role})

    async def set_role(self, who: UUID | str, role: str) -> Account:
        """Gives an account another role, at once."""
        return self._patch(Account, "users", who, body={"role": role})

    async def disable_user(self, who: UUID | str) -> Account:
        """Ends all that an account has open, and lets it do nothing more."""
        return self._post(Account, "users", who, "disable")

    async def enable_user(self, who: UUID | str) -> Account:
        """Lets an account sign in again."""
        return self._post(Account, "users", who, "enable")

    async def list_tokens(self, *, owner: UUID | str | None = None, before: int | None = None, limit: int = 100) -> TokenPage:
        """The newest tokens, of one account or of all."""
        query = {"owner": owner, "cursor": None if before is None else encode_cursor("tokens", before), "limit": limit}
        tokens, next = self._page(TokenRecord, "tokens", query=query)
        return TokenPage(tokens, None if next is None else tokens[-1].id)

    async def create_token(
        self, owner: UUID | str, name: str, *, scopes: Sequence[str] | None = None, days: int | None = None
    ) -> NewToken:
        """Makes a token of an account; it is shown this once."""
        return self._post(NewToken, "tokens", body={"owner": owner, "name": name, **given(scopes=scopes, days=days)})

    async def revoke_token(self, id: int) -> TokenRecord:
        """Ends a token at once."""
        return self._delete(TokenRecord, "tokens", id)
