"""Payload fields that nobody may read: encrypted where they are stored, and hidden wherever else they come up."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from secrets import token_hex
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretBytes, SecretStr
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import BeforeValidator

from rota.config import load_settings
from rota.errors import ConfigError, PayloadError, how_to_install

SEALED = "rota-secret:"
OPEN = "rota-open:"  # of what is not encrypted, because there is no key: encoded, so that nobody reads it by accident
TOKEN = re.compile(r"rota-secret:(?P<key>[0-9a-f]{8}):(?P<kind>[a-z0-9_]{1,30}):(?P<data>[A-Za-z0-9_=-]+)")
NO_KEY = (
    "there is no key to encrypt it with. Set ROTA_SECRETS_KEY, or key under [secrets] in rota.toml, to the same value for all "
    "servers and workers; `rota init` writes one, or run `openssl rand -hex 32`"
)
ELSEWHERE = "was sealed for another record, owner, field or origin"
_KIND = re.compile(r"[a-z0-9_]{1,30}")
_NONCE = bytes(12)
_WRAPPED = 48  # bytes of a wrapped data key

# Of a secret in a payload that is not stored yet. It is new with each process: what another process has written, or a caller makes
# up, is never taken for one. rota.job_payload refuses to store it.
DRAFT = f"rota-draft-{token_hex(8)}:"

MARK = "x-rota-secret"  # in the JSON schema of such a field

_SECRET = (SecretStr, SecretBytes)
_NEVER_SECRET = frozenset([str, int, float, bool])
_MANY = (list, tuple, set, frozenset)
_keys: tuple[str, ...] = ()  # the first encrypts, all decrypt
_required: bool | None = None  # whether nothing is stored without a key; None: no application has said


def use_keys(keys: str | None, *, required: bool = False) -> None:
    """Set the keys of this process, with commas between them, and whether secrets are refused without one."""
    global _keys, _required
    _required = required
    if keys is None:
        return
    found = tuple(key.strip() for key in keys.split(",") if key.strip())
    for key in found:
        if len(key) < 32:
            raise ConfigError("secrets.key has a key of fewer than 32 characters: make one with `openssl rand -hex 32`")
    _keys = found + tuple(key for key in _keys if key not in found)


def check_key(task: str) -> None:
    """Raise PayloadError for a job with a secret where there is no key to encrypt it with."""
    if not _keys:
        raise PayloadError(f"{task}: a Secret cannot be stored: {NO_KEY}")
    _cipher(_keys[0])


class Record(NamedTuple):
    """The record that a secret is stored in. Its token can be read there and nowhere else."""

    kind: str  # lowercase letters and _: job, schedule, task, webhook, or an application's own
    id: str
    owner: str = ""


def seal(value: str, *, kind: str, id: object, field: str, owner: object = "", origin: str = "", key_needed: bool = True) -> str:
    """Encrypt a secret for one field of one record, and return the text to store.

    `kind` and `id` name the record (`"feed"`, 7), `owner` whom it belongs to, `field` the column or member. `unseal` needs the same
    four: a token that is copied elsewhere cannot be read. Give `origin` (see `origin_of`) to bind the secret to the host it is sent
    to as well. Add the column to `app.sealed_columns`, so that `rota secrets rotate` finds it.

    Raises `ConfigError` without `secrets.key`. With `key_needed=False` and `app.env = "local"` the text is then only encoded.
    """
    record = Record(kind, str(id), str(owner))
    if not may_store(key_needed=key_needed):
        raise ConfigError(f"a secret cannot be stored: {NO_KEY}")
    return write_token(value, record, field, origin)


def unseal(text: str, *, kind: str, id: object, field: str, owner: object = "", origin: str = "") -> str:
    """Return the secret that `seal` was given for this record, owner, field and origin.

    Raises `ConfigError` if no key fits, or if the text was sealed for another record.
    """
    try:
        return read_token(text, Record(kind, str(id), str(owner)), field, origin)
    except ValueError as error:
        raise ConfigError(f"{field} of {kind} {id} cannot be read: it {error}") from None


def may_store(*, key_needed: bool = True) -> bool:
    """Return whether secrets can be stored here: there is a key, or none is needed and `app.env` is `local`."""
    if not _keys and _required is None:
        _read_settings()
    return bool(_keys) or not (key_needed or _required)


def origin_of(url: str) -> str:
    """Return the origin of a URL, `https://example.org:443`: the host that secrets are sent to."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{(parts.hostname or '').rstrip('.')}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def write_token(value: str, record: Record, field: str, origin: str = "") -> str:
    """Return the token of a secret; without a key it is encoded and not encrypted. The same arguments give the same token."""
    if not _KIND.fullmatch(record.kind):
        raise ValueError(f"kind {record.kind!r} is not allowed: 1 to 30 lowercase letters, digits and _")
    bound, plain = _binding(record, field, origin), value.encode()
    if not _keys:
        digest = hashlib.sha256(bound).digest()[:16]
        return f"{OPEN}{record.kind}:{base64.urlsafe_b64encode(digest + plain).decode()}"
    key = _keys[0]
    # Derived from what it encrypts, so that no two values share a data key; then a constant nonce is safe.
    data_key = hmac.digest(_derived(key, "data"), bound + b"\0" + plain, "sha256")
    sealed = _cipher(key).encrypt(data_key, None) + _aead(data_key).encrypt(_NONCE, plain, bound)
    return f"{SEALED}{key_id(key)}:{record.kind}:{base64.urlsafe_b64encode(sealed).decode()}"


def read_token(text: str, record: Record, field: str, origin: str = "") -> str:
    """Return the secret of a token. ValueError says why it cannot be read, as what follows "it"."""
    try:
        if text.startswith(OPEN):
            if not may_store(key_needed=False):
                raise ValueError("is not encrypted, which is allowed only where app.env is local")
            kind, _, data = text.removeprefix(OPEN).partition(":")
            raw = base64.b64decode(data, b"-_", validate=True)
            if kind != record.kind or raw[:16] != hashlib.sha256(_binding(record, field, origin)).digest()[:16]:
                raise ValueError(ELSEWHERE)
            return raw[16:].decode()
        id, kind, data = _parts(text)
        raw = base64.b64decode(data, b"-_", validate=True)
    except (UnicodeDecodeError, binascii.Error):
        raise ValueError("is not a stored secret, although it begins like one") from None
    data_key = _unwrap(_key_of(id), raw[:_WRAPPED])
    try:
        plain: bytes = _aead(data_key).decrypt(_NONCE, raw[_WRAPPED:], _binding(record, field, origin))
    except Exception:
        raise ValueError(ELSEWHERE) from None
    return plain.decode()


def rewrap(text: str) -> str:
    """Return a token under the newest key; what it is bound to stays the same. Tokens without encryption stay as they are."""
    if text.startswith(OPEN) or not _keys:
        return text
    id, kind, data = _parts(text)
    newest = _keys[0]
    if id == key_id(newest):
        return text
    raw = base64.b64decode(data, b"-_", validate=True)
    wrapped = _cipher(newest).encrypt(_unwrap(_key_of(id), raw[:_WRAPPED]), None)
    return f"{SEALED}{key_id(newest)}:{kind}:{base64.urlsafe_b64encode(wrapped + raw[_WRAPPED:]).decode()}"


def key_id(key: str) -> str:
    """Return the name of a key in tokens: eight hexadecimal digits of its hash."""
    return _derived(key, "id").hex()[:8]


def known_key_ids() -> tuple[str, ...]:
    """Return the ids of this process's keys, the newest first."""
    return tuple(key_id(key) for key in _keys)


def _parts(text: str) -> tuple[str, str, str]:
    match = TOKEN.fullmatch(text)
    if match is None:
        raise ValueError("is not a stored secret")
    return match["key"], match["kind"], match["data"]


def _key_of(id: str) -> str:
    if not _keys:
        # A process in which one handler is tried alone has its module and no application, which would have brought the keys.
        _read_settings()
    for key in _keys:
        if key_id(key) == id:
            return key
    known = f"known are {', '.join(known_key_ids())}" if _keys else "no key is set"
    raise ValueError(f"was encrypted with key {id}, and {known}: add that key to secrets.key (ROTA_SECRETS_KEY)")


def _binding(record: Record, field: str, origin: str) -> bytes:
    return json.dumps([*record, field, origin]).encode()


@lru_cache(64)
def _derived(key: str, purpose: str) -> bytes:
    return hashlib.sha256(f"rota-secret\0{purpose}\0{key}".encode()).digest()


def _aead(data_key: bytes) -> Any:
    return _cryptography()[0](data_key)


@lru_cache(16)
def _cipher(key: str) -> Any:
    """Return what wraps data keys under a key."""
    return _cryptography()[1](_derived(key, "wrap") + _derived(key, "wrap mac"))


def _unwrap(key: str, wrapped: bytes) -> bytes:
    cipher = _cipher(key)
    try:
        data_key: bytes = cipher.decrypt(wrapped, None)
    except Exception:
        raise ValueError("was changed after it was stored") from None
    return data_key


@lru_cache(1)
def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
    except ImportError:
        raise ConfigError(f"secrets need the package cryptography: {how_to_install('secrets')}") from None
    return AESGCM, AESSIV


def digests(value: bytes) -> list[str]:
    """Return keyed hashes of a value, one for each key, the newest first; without keys, in `local`, one that has none."""
    if not _keys:
        return [hashlib.sha256(value).hexdigest()]
    return [f"{key_id(key)}:{hmac.digest(_derived(key, 'digest'), value, 'sha256').hex()}" for key in _keys]


def _read_settings() -> None:
    settings = load_settings()
    use_keys(settings.secrets.key, required=settings.app.env != "local")


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


def draft(value: str) -> str:
    """Return a secret as it stands in a payload that is not stored yet. `model/vault.py` replaces drafts by tokens."""
    return DRAFT + base64.urlsafe_b64encode(value.encode()).decode()


def undraft(text: str) -> str:
    """Return the secret of a draft."""
    try:
        return base64.b64decode(text.removeprefix(DRAFT), b"-_", validate=True).decode()
    except ValueError:
        raise ValueError("is not a secret, although it begins like one") from None


def _read(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.startswith((SEALED, OPEN)):
        raise ValueError("is a stored secret, which only its own record can read: give the secret itself")
    return undraft(value) if value.startswith(DRAFT) else value


def _write(value: SecretStr) -> str:
    return draft(value.get_secret_value())


class ConcealedStr(SecretStr):
    """A secret that is stored without a key, too, where `app.env` is `local`."""


def is_secret(schema: Any) -> bool:
    """Return whether a field with this JSON schema has a secret, as it is or inside."""
    return MARK in json.dumps(schema)


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
    BeforeValidator(_read),
    PlainSerializer(_write, return_type=str, when_used="json"),
    Field(json_schema_extra=_mark),
]
"""The same, for what may be stored without a key where `app.env` is `local`."""
