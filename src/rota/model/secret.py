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
_WRAPPED = 40  # bytes of a wrapped data key

PREFIX = "rota-secret:1:"
OPEN_PREFIX = "rota-open:1:"  # of what is not encrypted, since there is no key: encoded, so that nobody reads it by accident
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
    sealed = _wrap(_derived(key, "wrap"), data_key) + _aead(data_key).encrypt(_NONCE, plain, bound)
    return f"{SEALED}{key_id(key)}:{record.kind}:{base64.urlsafe_b64encode(sealed).decode()}"


def read_token(text: str, record: Record, field: str, origin: str = "") -> str:
    """Return the secret of a token. ValueError says why it cannot be read, as what follows "it"."""
    try:
        if text.startswith(OPEN):
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
    wrapped = _wrap(_derived(newest, "wrap"), _unwrap(_key_of(id), raw[:_WRAPPED]))
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


def _wrap(key: bytes, data_key: bytes) -> bytes:
    wrapped: bytes = _cryptography()[1](key, data_key)
    return wrapped


def _unwrap(key: str, wrapped: bytes) -> bytes:
    try:
        data_key: bytes = _cryptography()[2](_derived(key, "wrap"), wrapped)
    except ConfigError:
        raise
    except Exception:
        raise ValueError("was changed after it was stored") from None
    return data_key


@lru_cache(1)
def _cryptography() -> tuple[Any, Any, Any]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
    except ImportError:
        raise ConfigError(f"secrets need the package cryptography: {how_to_install('secrets')}") from None
    return AESGCM, aes_key_wrap, aes_key_unwrap


def _read_settings() -> None:
    settings = load_settings()
    use_keys(settings.secrets.key, required=settings.app.env != "local")


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
