"""Payload fields that nobody may read: encrypted where they are stored, and hidden wherever else they come up."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, Field, SecretBytes, SecretStr
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import BeforeValidator

from rota.config import load_settings
from rota.errors import ConfigError, PayloadError, how_to_install

PREFIX = "rota-secret:1:"
OPEN_PREFIX = "rota-open:1:"  # of what is not encrypted, since there is no key: encoded, so that nobody reads it by accident
MARK = "x-rota-secret"  # in the JSON schema of such a field

_SECRET = (SecretStr, SecretBytes)
_NEVER_SECRET = frozenset([str, int, float, bool])
_MANY = (list, tuple, set, frozenset)
_keys: tuple[str, ...] = ()  # the first encrypts, all decrypt


def use_keys(keys: str | None) -> None:
    """Sets the keys of this process, with commas between them."""
    global _keys
    if keys is None:
        return
    found = tuple(key.strip() for key in keys.split(",") if key.strip())
    for key in found:
        if len(key) < 32:
            raise ConfigError("secrets.key has a key of fewer than 32 characters: make one with `openssl rand -hex 32`")
    _keys = found + tuple(key for key in _keys if key not in found)


def check_key(task: str) -> None:
    """Refuses a job with a secret where there is no key to store it with."""
    if not _keys:
        raise PayloadError(
            f"{task}: a Secret needs a key to be stored: set ROTA_SECRETS_KEY, or key under [secrets] in rota.toml, "
            "to at least 32 random characters (`openssl rand -hex 32`), for workers too"
        )
    _cipher(_keys[0])


def conceal(value: str) -> str:
    """A value as it is stored that nobody should come across: encrypted where there is a key, else only encoded."""
    return encrypt(value) if _keys else OPEN_PREFIX + base64.urlsafe_b64encode(value.encode()).decode()


def reveal(text: str) -> str:
    """What `conceal` was given; text that it has not made is what it is."""
    if text.startswith(OPEN_PREFIX):
        try:
            return base64.b64decode(text.removeprefix(OPEN_PREFIX), b"-_", validate=True).decode()
        except ValueError:
            raise ValueError("is not a stored value, although it begins like one") from None
    return decrypt(text) if text.startswith(PREFIX) else text


def seal(value: str, *, key_needed: bool = True) -> str:
    """A secret as an application stores it in a table of its own: encrypted by `secrets.key`.

    Without a key it is refused, or, if none is needed, only encoded, so that nobody reads it by accident.
    """
    if not _keys:
        use_keys(load_settings().secrets.key)
    if key_needed and not _keys:
        raise ConfigError(
            "a secret needs a key to be stored: set ROTA_SECRETS_KEY, or key under [secrets] in rota.toml, "
            "to at least 32 random characters (`openssl rand -hex 32`), for workers too"
        )
    return conceal(value)


def unseal(text: str) -> str:
    """What `seal` was given."""
    try:
        return reveal(text)
    except ValueError as error:
        raise ConfigError(f"a stored secret cannot be read: it {error}") from None


def encrypt(value: str) -> str:
    """A secret as it is stored. The same one is always stored as the same text, or a job's key would not know its payload again."""
    return PREFIX + base64.urlsafe_b64encode(_cipher(_keys[0]).encrypt(value.encode(), None)).decode()


def decrypt(text: str) -> str:
    """The secret that was stored as this text."""
    try:
        raw = base64.urlsafe_b64decode(text.removeprefix(PREFIX))
    except ValueError:
        raise ValueError("is not a stored secret, although it begins like one") from None
    if not _keys:
        # A process in which one handler is tried alone has its module and no application, which would have brought the keys.
        use_keys(load_settings().secrets.key)
    for key in _keys:
        try:
            plain: bytes = _cipher(key).decrypt(raw, None)
        except Exception:  # of another key
            continue
        return plain.decode()
    problem = "none of the keys in secrets.key fits it" if _keys else "no key is set: set ROTA_SECRETS_KEY"
    raise ValueError(f"was encrypted, and {problem}")


class SecretsOf(Collection[str]):
    """The secrets of a payload, found when somebody asks: most runs say nothing in which they could be."""

    __slots__ = ("_found", "_read")

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read  # anew, for a handler may have changed its arguments
        self._found: tuple[str, ...] | None = None

    def _all(self) -> tuple[str, ...]:
        if self._found is None:
            self._found = find_secrets(self._read())
        return self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, value: object) -> bool:
        return value in self._all()


def find_secrets(value: Any) -> tuple[str, ...]:
    """The secret values inside a payload."""
    found = (each.get_secret_value() for each in _gather(value))
    return tuple(each if isinstance(each, str) else each.decode("utf-8", "replace") for each in found)


def needs_key(value: Any) -> bool:
    """Whether a payload has secrets that may not be stored without a key."""
    return any(not isinstance(each, ConcealedStr) for each in _gather(value))


def _gather(value: Any) -> list[SecretStr | SecretBytes]:
    found: list[SecretStr | SecretBytes] = []
    _walk(value, 0, found)
    return found


def _walk(value: Any, depth: int, found: list[SecretStr | SecretBytes]) -> None:
    if isinstance(value, _SECRET):
        found.append(value)
        return
    if isinstance(value, BaseModel):
        extra = value.__pydantic_extra__
        value = value.__dict__ | extra if extra else value.__dict__
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, _MANY):
        return
    if depth < 50:
        for each in value:
            if each is not None and type(each) not in _NEVER_SECRET:
                _walk(each, depth + 1, found)


@lru_cache(16)
def _cipher(key: str) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError:
        raise ConfigError(f"a Secret needs the package cryptography: {how_to_install('secrets')}") from None
    return AESSIV(hashlib.sha512(b"rota-secret\0" + key.encode()).digest())


def _read(value: Any) -> Any:
    return decrypt(value) if isinstance(value, str) and value.startswith(PREFIX) else value


def _write(value: SecretStr) -> str:
    return encrypt(value.get_secret_value())


class ConcealedStr(SecretStr):
    """A secret that is stored without a key, too."""


def _reveal(value: Any) -> Any:
    return reveal(value) if isinstance(value, str) else value


def _conceal(value: SecretStr) -> str:
    return conceal(value.get_secret_value())


def _mark(schema: dict[str, Any]) -> None:
    schema[MARK] = True


Secret = Annotated[
    SecretStr,
    BeforeValidator(_read),
    PlainSerializer(_write, return_type=str, when_used="json"),
    Field(json_schema_extra=_mark),
]
"""The type of a payload field, or of the values of one (`dict[str, Secret]`), that is stored encrypted."""

Concealed = Annotated[
    ConcealedStr,
    BeforeValidator(_reveal),
    PlainSerializer(_conceal, return_type=str, when_used="json"),
    Field(json_schema_extra=_mark),
]
"""The same, for what may be stored where there is no key: encrypted if there is one."""
