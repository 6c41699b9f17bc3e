"""Payload fields that nobody may read: encrypted where they are stored, and hidden wherever else they come up."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Field, SecretBytes, SecretStr
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import BeforeValidator

from rota.errors import ConfigError, PayloadError

PREFIX = "rota-secret:1:"
MARK = "x-rota-secret"  # in the JSON schema of such a field

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


def encrypt(value: str) -> str:
    """A secret as it is stored. The same one is always stored as the same text, or a job's key would not know its payload again."""
    return PREFIX + base64.urlsafe_b64encode(_cipher(_keys[0]).encrypt(value.encode(), None)).decode()


def decrypt(text: str) -> str:
    """The secret that was stored as this text."""
    try:
        raw = base64.urlsafe_b64decode(text.removeprefix(PREFIX))
    except ValueError:
        raise ValueError("is not a stored secret, although it begins like one") from None
    for key in _keys:
        try:
            plain: bytes = _cipher(key).decrypt(raw, None)
        except Exception:  # of another key
            continue
        return plain.decode()
    problem = "none of the keys in secrets.key fits it" if _keys else "no key is set: set ROTA_SECRETS_KEY"
    raise ValueError(f"was encrypted, and {problem}")


def find_secrets(value: Any) -> tuple[str, ...]:
    """The secret values inside a payload."""
    return tuple(_walk(value, 0))


def _walk(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, SecretBytes):
        yield value.get_secret_value().decode("utf-8", "replace")
    elif depth < 50:
        if isinstance(value, BaseModel):
            value = dict(value)
        if isinstance(value, dict):
            value = value.values()
        elif not isinstance(value, list | tuple | set | frozenset):
            return
        for each in value:
            yield from _walk(each, depth + 1)


def _cipher(key: str) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError:
        raise ConfigError("a Secret needs the package cryptography: install rota[secrets]") from None
    return AESSIV(hashlib.sha512(b"rota-secret\0" + key.encode()).digest())


def _read(value: Any) -> Any:
    return decrypt(value) if isinstance(value, str) and value.startswith(PREFIX) else value


def _write(value: SecretStr) -> str:
    return encrypt(value.get_secret_value())


def _mark(schema: dict[str, Any]) -> None:
    schema[MARK] = True


Secret = Annotated[
    SecretStr,
    BeforeValidator(_read),
    PlainSerializer(_write, return_type=str, when_used="json"),
    Field(json_schema_extra=_mark),
]
"""The type of a payload field, or of the values of one (`dict[str, Secret]`), that is stored encrypted."""
