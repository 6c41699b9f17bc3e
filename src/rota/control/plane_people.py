"""The part of the control plane that is about people: accounts, their tokens, and who has changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.control.plane_base import Plane
from rota.errors import AuthError
from rota.lazy import Lazy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from rota.control import accounts, api_tokens, audit
    from rota.control.accounts import AccountPage
    from rota.control.api_tokens import NewToken, TokenPage
    from rota.control.audit import AuditPage
    from rota.store.accounts import Account
    from rota.store.api_tokens import TokenRecord
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    accounts = Lazy("rota.control.accounts")
    api_tokens = Lazy("rota.control.api_tokens")
    audit = Lazy("rota.control.audit")


class People(Plane):
    """What admins do with accounts, and what everybody does with tokens of their own."""

    async def list_users(self, *, after: str = "", limit: int = 100) -> AccountPage:
        """Accounts by address."""
        async with self._for("users.read") as conn:
            return await accounts.list_accounts(conn, after=after, limit=limit)

    async def get_user(self, who: UUID | str) -> Account:
        """One account, by its number or its address."""
        async with self._for("users.read") as conn:
            return await accounts.get_account(conn, who)

    async def create_user(self, email: str, *, role: str = "user") -> Account:
        """Makes an account; Conflict if the address has one."""
        async with self._changing("users.change") as conn:
            return await accounts.create_account(conn, self.actor, email, role=role)

    async def set_role(self, who: UUID | str, role: str) -> Account:
        """Gives an account another role, at once; the last admin stays one."""
        async with self._changing("users.change") as conn:
            return await accounts.set_role(conn, self.actor, who, role)

    async def disable_user(self, who: UUID | str) -> Account:
        """Ends all that an account has open, and lets it do nothing more; the last admin stays."""
        async with self._changing("users.change") as conn:
            return await accounts.disable_account(conn, self.actor, who)

    async def enable_user(self, who: UUID | str) -> Account:
        """Lets an account sign in again."""
        async with self._changing("users.change") as conn:
            return await accounts.enable_account(conn, self.actor, who)

    async def list_tokens(self, *, owner: UUID | str | None = None, before: int | None = None, limit: int = 100) -> TokenPage:
        """The newest tokens, of one account or of all."""
        async with self._for("users.read") as conn:
            return await api_tokens.list_tokens(conn, owner=owner, before=before, limit=limit)

    async def create_token(
        self, owner: UUID | str, name: str, *, scopes: Sequence[str] | None = None, days: int | None = None
    ) -> NewToken:
        """Create a token of an account; it is shown this once. An actor who uses a token creates those of the same account only."""
        async with self._changing("tokens.change") as conn:
            return await api_tokens.create_token(conn, self.actor, self._policy, owner, name, scopes=scopes, days=days)

    async def revoke_token(self, id: int) -> TokenRecord:
        """Revoke a token and all that were created with it, at once."""
        async with self._changing("tokens.change") as conn:
            return await api_tokens.revoke_token(conn, self.actor, id)

    async def list_own_tokens(self, *, before: int | None = None, limit: int = 100) -> TokenPage:
        """The newest tokens of who acts."""
        async with self._own() as conn:
            return await api_tokens.list_tokens(conn, owner=self._account(), before=before, limit=limit)

    async def create_own_token(self, name: str, *, scopes: Sequence[str] | None = None, days: int | None = None) -> NewToken:
        """Create a token of the actor's account; it is shown this once."""
        async with self._own() as conn:
            return await api_tokens.create_token(conn, self.actor, self._policy, self._account(), name, scopes=scopes, days=days)

    async def revoke_own_token(self, id: int) -> TokenRecord:
        """Revoke a token of the actor's account and all that were created with it; NotFound for those of others."""
        async with self._own() as conn:
            return await api_tokens.revoke_token(conn, self.actor, id, owner=self._account())

    async def list_audit(
        self,
        *,
        actor: str | None = None,
        operation: str | None = None,
        target: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> AuditPage:
        """The newest changes that somebody made, for which everything that is given holds."""
        async with self._for("audit.read") as conn:
            return await audit.list_audit(conn, actor=actor, operation=operation, target=target, before=before, limit=limit)

    def _account(self) -> UUID:
        if self.actor.account is None:
            raise AuthError(f"{self.actor.name} has no account, and nothing of their own")
        return self.actor.account
