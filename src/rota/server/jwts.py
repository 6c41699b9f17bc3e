"""JSON Web Tokens: what programs get for a sign-in link. One algorithm, keys by their name, and a row behind each.

A token says which session it stands for; whether that is still open, whose it is and what they may do, the database says. So a
token ends when its session does, and nothing that is written in it can be out of date.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from uuid import UUID

import jwt

from rota.errors import AuthError, ConfigError

ALGORITHM = "HS256"
ISSUER = "rota"
TYPE = "at+jwt"
MIN_CHARS = 32
MAX_CHARS = 4096  # of a token; ours have some 400
LEEWAY_S = 60  # of the clocks of several servers


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says: which session, of which account."""

    session_id: UUID
    account_id: UUID


class Signer:
    """Makes tokens by the first of its secrets, and believes those made by any of them: so a secret can be replaced."""

    def __init__(self, secrets: str, audience: str) -> None:
        found = [each.strip() for each in secrets.split(",") if each.strip()]
        if not found or any(len(each) < MIN_CHARS for each in found):
            raise ConfigError(
                f"auth.secret has a secret of fewer than {MIN_CHARS} characters (commas separate several): "
                "make one with `openssl rand -hex 32`"
            )
        self._keys = {_name(each): each for each in found}
        self._first = _name(found[0])
        self._audience = f"rota:{audience}"

    def issue(self, session_id: UUID, account_id: UUID, *, hours: int) -> str:
        """A token for a session."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": self._audience,
            "sub": str(account_id),
            "jti": str(session_id),
            "iat": now,
            "exp": now + hours * 3600,
        }
        return jwt.encode(claims, self._keys[self._first], ALGORITHM, {"kid": self._first, "typ": TYPE})

    def read(self, token: str) -> Claims:
        """What a token of ours says; AuthError for all others, which does not tell what was wrong with them."""
        try:
            if len(token) > MAX_CHARS:
                raise jwt.InvalidTokenError
            header = jwt.get_unverified_header(token)
            key = self._keys.get(str(header.get("kid")))
            # The algorithm is ours, whatever the token says; and one made for another purpose with the same secret is none of ours.
            if key is None or header.get("typ") != TYPE or header.get("alg") != ALGORITHM or "crit" in header:
                raise jwt.InvalidTokenError
            claims = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=self._audience,
                issuer=ISSUER,
                leeway=LEEWAY_S,
                options={"require": ["iss", "aud", "sub", "jti", "iat", "exp"], "strict_aud": True},
            )
            return Claims(UUID(claims["jti"]), UUID(claims["sub"]))
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise AuthError("the token is not one of ours, or is too old: get another one from /auth/verify") from None


def _name(secret: str) -> str:
    return hashlib.sha256(b"rota-kid\0" + secret.encode()).hexdigest()[:16]
