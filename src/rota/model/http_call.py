"""An HTTP call to be made later: what it consists of, and what is refused before anybody makes it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, NamedTuple, Self, TypedDict, get_args
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, model_validator

from rota.errors import UsageError
from rota.model.duration import Duration, parse_duration
from rota.model.retry import Retry
from rota.model.roundtrip import show
from rota.model.secret import Concealed, ConcealedStr
from rota.model.vault import CALL

TASK = CALL
ADVICE = "write it as https://host/path"

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
METHODS: tuple[Method, ...] = get_args(Method)

MAX_URL_BYTES = 4096
MAX_HEADERS = 50
MAX_HEADER_BYTES = 16 * 1024  # names and values together
MAX_BODY_BYTES = 256 * 1024
MAX_SECRETS = 5  # at a time, while they are changed
TIMEOUT = timedelta(seconds=30)
MAX_TIMEOUT = timedelta(hours=1)
SAFETY = timedelta(minutes=5)  # after which a call ends whatever happens, unless its own timeout is longer

# What the connection needs, and what says who has signed.
RESERVED = frozenset(
    ["host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "trailers", "upgrade", "expect",
     "http2-settings", "webhook-id", "webhook-timestamp", "webhook-signature"]
)  # fmt: skip

HARMLESS = frozenset(["accept", "accept-language", "content-type", "user-agent"])  # headers that sign nobody in

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_NOT_LETTERS = re.compile(r"[^0-9a-z]")
_UNSEEN = re.compile(r"[\x00-\x20\x7f\\]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_SAFE = "/%:@!$&'()*+,;=~-._[]"  # as in RFC 3986, and what is escaped already


class CallOptions(TypedDict, total=False):
    """What can be said of an HTTP job beside its URL; None is the default."""

    method: str
    json: Any
    body: str | bytes | None
    headers: Mapping[str, str] | None
    timeout: Duration | None
    secret: str | Sequence[str] | None
    run_at: datetime | None
    delay: Duration | None
    retry: Retry | None
    max_attempts: int | None
    priority: int | None
    key: str | None
    key_ttl: Duration | None
    strict: bool | None
    owner: str | None
    triggered_by: Mapping[str, Any] | None


class Target(NamedTuple):
    """Where a call goes: the URL without its query and as it is sent, and the parts of it."""

    url: str
    query: str  # without its question mark
    host: str  # a name in small ASCII letters, or an address without brackets
    port: int

    @property
    def whole(self) -> str:
        """The URL with its query."""
        return f"{self.url}?{self.query}" if self.query else self.url


class HttpCall(BaseModel):
    """A call as it is stored: the payload of a job. What may be a secret is stored as one."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str  # without its query
    query: Concealed | None = None
    method: Method = "POST"
    headers: dict[str, Concealed] = {}
    body: Concealed | None = None
    binary: bool = False  # the body is base64 of what is sent
    timeout_s: float = TIMEOUT.total_seconds()
    secrets: list[Concealed] = []  # with which it is signed

    @model_validator(mode="after")
    def _check(self) -> Self:
        # Jobs also come in by SQL, by their task's name, and by an operator's edit.
        self.target  # noqa: B018
        check_headers({name: value.get_secret_value() for name, value in self.headers.items()})
        _check_body(self.content)
        _check_secrets([each.get_secret_value() for each in self.secrets])
        if not 0 < self.timeout_s <= MAX_TIMEOUT.total_seconds():
            parse_timeout(self.timeout_s)  # which says what is wrong with it
        return self

    @property
    def target(self) -> Target:
        """Where it goes."""
        query = self.query.get_secret_value() if self.query is not None else ""
        return read_url(f"{self.url}?{query}" if query else self.url)

    @property
    def content(self) -> bytes | None:
        """The body as it is sent."""
        if self.body is None:
            return None
        text = self.body.get_secret_value()
        return base64.b64decode(text, validate=True) if self.binary else text.encode()


def make_call(
    url: str,
    *,
    method: str = "POST",
    json: Any = None,
    body: str | bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: Duration | None = None,
    secret: str | Sequence[str] | None = None,
) -> HttpCall:
    """A call, checked. The body is text, bytes, or a value sent as JSON; `secret` signs it: several, while one is replaced."""
    target = read_url(url)
    known = method.upper() if isinstance(method, str) else method
    if known not in METHODS:
        raise UsageError(f"method={show(method)} is not allowed: one of {', '.join(METHODS)}")
    sent = dict(headers or {})
    if json is not None:
        if body is not None:
            raise UsageError("give json= or body=, not both")
        body = _encode_json(json)
        if not any(isinstance(name, str) and name.lower() == "content-type" for name in sent):
            sent["Content-Type"] = "application/json"
    check_headers(sent)
    content = _check_body(body)
    if content is not None and known in ("GET", "HEAD"):
        raise UsageError(f"body is not allowed with method={known!r}: most servers would drop it; use POST")
    secrets = [secret] if isinstance(secret, str) else list(secret or ())
    _check_secrets(secrets)
    binary = isinstance(body, bytes)
    text = None if content is None else base64.b64encode(content).decode() if binary else content.decode()
    return HttpCall.model_construct(
        url=target.url,
        query=ConcealedStr(target.query) if target.query else None,
        method=known,
        headers={name: ConcealedStr(value) for name, value in sent.items()},
        body=None if text is None else ConcealedStr(text),
        binary=binary,
        timeout_s=parse_timeout(timeout).total_seconds(),
        secrets=[ConcealedStr(each) for each in secrets],
    )


def read_url(url: str) -> Target:
    """The parts of a URL that a call may have; what two programs could read in two ways is refused."""
    if not isinstance(url, str) or not url or _UNSEEN.search(url):
        raise UsageError(f"url is not allowed: it is empty, or has spaces, backslashes or control characters; {ADVICE}")
    return _read_url(url)


@lru_cache(256)  # a call is looked at several times on its way
def _read_url(url: str) -> Target:
    try:
        size = len(url.encode())
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
    except (ValueError, UnicodeEncodeError):
        raise UsageError(f"url is not allowed: its host or port means nothing; {ADVICE}") from None
    if size > MAX_URL_BYTES:
        raise UsageError(f"url is {size} bytes long: at most {MAX_URL_BYTES}")
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"url has the scheme {show(parts.scheme)}: http and https are allowed; {ADVICE}")
    if "@" in parts.netloc:
        raise UsageError("url has a user or password in it: give them in a header, as Authorization")
    if not name or port == 0:
        raise UsageError(f"url is not allowed: it has no host, or the port 0; {ADVICE}")
    host = read_host(name, bracketed=parts.netloc.startswith("["))
    shown = f"[{host}]" if ":" in host else host
    at = shown if port is None else f"{shown}:{port}"
    path, query = quote(parts.path or "/", safe=_SAFE), quote(parts.query, safe=_SAFE + "?")
    return Target(f"{parts.scheme}://{at}{path}", query, host, port or (443 if parts.scheme == "https" else 80))


def read_host(name: str, *, bracketed: bool = False) -> str:
    """A host as it is looked up: in small ASCII letters, without a dot at its end; numbers only as an address is written."""
    if bracketed or ":" in name:
        try:
            return str(IPv6Address(name)) if "%" not in name else _refuse_host(name)
        except ValueError:
            _refuse_host(name)
    host = name.lower()
    if not host.isascii():
        import idna  # here, since most hosts need none of it

        try:
            host = idna.encode(host, uts46=True).decode().lower()
        except (idna.IDNAError, UnicodeError):
            _refuse_host(name)
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        _refuse_host(name)
    if _NUMBER.fullmatch(labels[-1]):
        # Resolvers read 0x7f.1, 017700000001 and 2130706433 as addresses, each in its own way.
        try:
            IPv4Address(host)
        except ValueError:
            raise UsageError(f"host {show(name)} is not an address: write one as four decimal numbers, as 192.0.2.1") from None
    return host


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuses headers that would be read in two ways, or that are the connection's. No value is named: it may be a secret."""
    if len(headers) > MAX_HEADERS:
        raise UsageError(f"headers: {len(headers)} are too many: at most {MAX_HEADERS}")
    seen: set[str] = set()
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"headers: {show(name)} is not a name of a header: letters, digits and - only, at most 100")
        # Many servers read Transfer_Encoding, and some Transfer.Encoding, as Transfer-Encoding: CGI has one name for all of them.
        low = _NOT_LETTERS.sub("-", name.lower())
        if low in RESERVED or low.startswith("proxy-"):
            raise UsageError(f"headers: {name} cannot be set: it belongs to the connection, or to the signature")
        if low in seen:
            raise UsageError(f"headers: {name} is given twice")
        seen.add(low)
        if not isinstance(value, str) or _CONTROL.search(value):
            raise UsageError(f"headers: the value of {name} is not text, or has a line break or another control character")
        try:
            size += len(name) + len(value.encode())
        except UnicodeEncodeError:
            raise UsageError(f"headers: the value of {name} is not text that can be sent") from None
    if size > MAX_HEADER_BYTES:
        raise UsageError(f"headers have {size} bytes: at most {MAX_HEADER_BYTES}")


def parse_timeout(value: Duration | None) -> timedelta:
    """How long a call may take, all in all."""
    if value is None:
        return TIMEOUT
    timeout = parse_duration(value, name="timeout", positive=True)
    if timeout > MAX_TIMEOUT:
        raise UsageError(f"timeout={show(value)} is out of range: at most {MAX_TIMEOUT.total_seconds():g} seconds")
    return timeout


def _encode_json(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise UsageError("json cannot be written as JSON: give text, numbers, lists and objects of them, without NaN") from None


def _check_body(body: str | bytes | None) -> bytes | None:
    if body is None:
        return None
    if not isinstance(body, str | bytes):
        raise UsageError(f"body is of type {type(body).__name__}: give text or bytes, or a value as json=")
    try:
        content = body.encode() if isinstance(body, str) else body
    except UnicodeEncodeError:
        raise UsageError("body is not text that can be sent: it has half a character (a lone surrogate)") from None
    if len(content) > MAX_BODY_BYTES:
        raise UsageError(f"body has {len(content)} bytes: at most {MAX_BODY_BYTES}; send a link to it instead")
    return content


def _check_secrets(secrets: Sequence[str]) -> None:
    if len(secrets) > MAX_SECRETS:
        raise UsageError(f"secret: {len(secrets)} are too many: at most {MAX_SECRETS}")
    for each in secrets:
        if not isinstance(each, str) or not each.isascii() or not 16 <= len(each) <= 200:
            raise UsageError("secret is not allowed: 16 to 200 ASCII characters, as whsec_ and base64")
        read_secret(each)


def read_secret(secret: str) -> bytes:
    """The key that a secret stands for: what follows `whsec_` is base64, anything else is the key itself."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise UsageError("secret begins with whsec_ and what follows is not base64: `openssl rand -base64 32` makes one") from None


def _refuse_host(name: str) -> str:
    raise UsageError(f"host {show(name)} is not a name or an address of a server")
