"""Secrets taken out of what people read: logs, errors, alerts. By their names, by their looks, and those that were marked as such.

Nothing here may fail or be slow: every line that is logged and every error that is kept comes through it.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from urllib.parse import quote
from uuid import UUID

HIDDEN = "[redacted]"
BEYOND = "…"  # what is nested too deeply, or is too much, to be looked at
MIN_CHARS = 4  # shorter secrets are not looked for in text: they would be found in every word
MAX_MARKED = 1000
_DEEPEST = 20
_MOST_VALUES = 10_000
_LONGEST_NAME = 100  # that is worth remembering

# The names under which secrets travel. With a number under it, only the first kind is hidden: a count of tokens is no token.
_ALWAYS = r"passw|passphrase|pwd|secret|private[_-]?key"
_NAMES = rf"{_ALWAYS}|token|authorization|cookie|api[_-]?key|access[_-]?key|credential"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_NEVER_A_NUMBER = re.compile(_ALWAYS, re.IGNORECASE)
# Parts of those names: a text without any of them need not be searched.
_PARTS = ("passw", "passphrase", "pwd", "secret", "token", "authorization", "cookie", "key", "credential")

_URL_PASSWORD = re.compile(r"(?<=://)([^:/@\s]{0,256}):[^@/\s]{1,2048}@")
_SCHEME = re.compile(r"\b(Bearer|Basic)\s{1,4}[\w.~+/=-]{4,}", re.IGNORECASE)
_QUOTED = r"""b?'(?:\\.|[^'\\]){0,4096}'?|b?"(?:\\.|[^"\\]){0,4096}"?"""
_BEFORE = r"""[\w-]{0,64}\\?['"]?\s{0,4}(?:[:=]|=>)\s{0,4}+"""
# A header's value goes to the end of its line or its quotes, that of other names to the end of the word.
_HEADER = re.compile(rf"""((?:authorization|cookie){_BEFORE})(?!\[redacted)({_QUOTED}|[^\r\n'"}}]+)""", re.IGNORECASE)
_NAMED = re.compile(rf"""((?:{_NAMES}){_BEFORE})({_QUOTED}|(?:SecretStr|SecretBytes)\([^)]*\)|[^\s,;&'")\]}}]+)""", re.IGNORECASE)
_COUNT = re.compile(r"[\d.]+\Z")
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL)
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*")

_PLAIN = (int, float, type(None), UUID, datetime, date, timedelta, Decimal, PurePath, Enum)
_marked: dict[str, None] = {}  # for as long as the process lives
_lock = threading.Lock()


class _Known:
    """Secrets of a run. Most runs say nothing in which they could be, so their forms are made when somebody does."""

    __slots__ = ("_forms", "_values")

    def __init__(self, values: Collection[str]) -> None:
        self._values = values
        self._forms: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def forms(self) -> tuple[str, ...]:
        """All ways in which they may be written, the longest first."""
        if self._forms is None:
            self._forms = _longest_first(self._values)
        return self._forms


_of_run: ContextVar[_Known | None] = ContextVar("rota_secrets", default=None)


class Shown(str):
    """Text that is shown as it is, with its secrets: a mail that is written to the log because that is where it is sent to."""

    __slots__ = ()


def mark_secret(value: str) -> None:
    """Hides `value` wherever it comes up from now on in this process; the oldest of more than 1,000 are forgotten."""
    with _lock:
        for form in _forms(value):
            _marked[form] = None
        while len(_marked) > MAX_MARKED:
            del _marked[next(iter(_marked))]


@contextmanager
def secrets_known(values: Collection[str]) -> Iterator[None]:
    """Hides these values within the block, in this context and those copied from it."""
    before = _of_run.set(_Known(values))
    try:
        yield
    finally:
        _of_run.reset(before)


def know_secrets(values: Collection[str]) -> None:
    """Hides these values in the context in which this is called, for as long as that lives."""
    _of_run.set(_Known(values))


def names_secret(name: object) -> bool:
    """Whether a field of this name is one whose value must not be seen."""
    return isinstance(name, str) and (_says_secret(name) if len(name) <= _LONGEST_NAME else _SECRET_NAME.search(name) is not None)


@lru_cache(2048)  # lines have the same few names
def _says_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def redact(value: Any, name: object = None) -> Any:
    """`value` without secrets: those inside text, and whatever has a name that says so, at any depth. `name` is its own."""
    if type(value) is not dict or names_secret(name):
        return _Redaction().of(value, name)
    # The fields of a line, nearly all of them plain: without the walk.
    clean = {}
    known = bool(_marked or _of_run.get())
    for key, each in value.items():
        kind = type(each)
        if kind is str:
            each = HIDDEN if each and names_secret(key) else redact_text(each)
        elif kind is not bool and each is not None and (kind is not int or names_secret(key)):
            each = _Redaction().of(each, key)
        clean[_hide_known(key) if known and isinstance(key, str) else key] = each
    return clean


def redact_text(text: str) -> str:
    """`text` without passwords in URLs, tokens, `password=…` and the like, private keys, and values marked as secret."""
    # First: a pattern that takes a part of a known secret away would leave the rest to be seen.
    if _marked or _of_run.get():
        text = _hide_known(text)
    if ":" in text or "=" in text:
        if "://" in text:
            text = _URL_PASSWORD.sub(rf"\1:{HIDDEN}@", text)
        lower = text.lower()
        if any(part in lower for part in _PARTS):
            if "authorization" in lower or "cookie" in lower:
                text = _HEADER.sub(rf"\1{HIDDEN}", text)
            text = _NAMED.sub(_hide_named, text)
    if " " in text or "\t" in text or "\n" in text:
        if "earer" in text or "asic" in text or "BEARER" in text or "BASIC" in text:
            text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
        if "PRIVATE KEY-----" in text:
            text = _PEM.sub(HIDDEN, text)
    if "eyJ" in text:
        text = _JWT.sub(HIDDEN, text)
    return text


def _hide_known(text: str) -> str:
    if len(text) < MIN_CHARS:
        return text
    if (of_run := _of_run.get()) is not None:
        for value in of_run.forms:
            if value in text:
                text = text.replace(value, HIDDEN)
    if _marked:
        for value in _longest_first(tuple(_marked), forms=False):
            if value in text:
                text = text.replace(value, HIDDEN)
    return text


def _hide_named(match: re.Match[str]) -> str:
    name, value = match.group(1, 2)
    if value.startswith(HIDDEN[:-1]) or (_COUNT.match(value) and not _NEVER_A_NUMBER.match(name)):
        return match.group()
    return name + HIDDEN


def _forms(value: str) -> list[str]:
    """A secret as it may be written: as it is, inside the quotes of JSON or Python, in a URL."""
    if not isinstance(value, str) or len(value) < MIN_CHARS or value in HIDDEN:
        return []
    escaped = value.encode("unicode_escape", "replace").decode()
    doubled = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return list(dict.fromkeys((value, escaped, doubled, quote(value, safe="", errors="replace"))))


def _longest_first(values: Iterable[str], *, forms: bool = True) -> tuple[str, ...]:
    # A secret that is part of another one would leave the rest of that to be seen.
    found = {form for value in values for form in (_forms(value) if forms else (value,))}
    return tuple(sorted(found, key=len, reverse=True))


class _Redaction:
    """One walk over nested data, which may refer to itself."""

    __slots__ = ("known", "left", "path")

    def __init__(self) -> None:
        self.left = _MOST_VALUES
        self.known = bool(_marked or _of_run.get())
        self.path: set[int] = set()

    def of(self, value: Any, name: object) -> Any:
        kind = type(value)
        if kind is str:
            return HIDDEN if value and names_secret(name) else redact_text(value)
        if kind is Shown:
            return str(value)
        if kind is int or kind is float:
            return HIDDEN if isinstance(name, str) and _NEVER_A_NUMBER.search(name) else value
        if isinstance(value, bool | None):
            return value
        if isinstance(value, dict | list | tuple | set | frozenset) or _is_record(value):
            return self._inside(value, name)
        if names_secret(name):
            return HIDDEN
        return value if isinstance(value, _PLAIN) else _redact_object(value)

    def _inside(self, value: Any, name: object) -> Any:
        if id(value) in self.path or len(self.path) >= _DEEPEST or self.left <= 0:
            return BEYOND
        self.path.add(id(value))
        try:
            if isinstance(value, list | tuple | set | frozenset):
                return [self.of(each, name) for each in value if self._counts()]
            items = value.items() if isinstance(value, dict) else _fields_of(value)
            # A name that says secret holds for everything below it: {"secrets": {"mail": "…"}}.
            below = name if names_secret(name) else None
            return {self._key(key): self.of(each, below or key) for key, each in items if self._counts()}
        finally:
            self.path.discard(id(value))

    def _key(self, key: object) -> object:
        return _hide_known(key) if self.known and isinstance(key, str) else key

    def _counts(self) -> bool:
        self.left -= 1
        return self.left >= 0


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields_of(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]


def _redact_object(value: Any) -> Any:
    """An object as it is, unless the text that it would be written as has a secret in it."""
    try:
        for text in (str(value), repr(value)):
            if (clean := redact_text(text)) != text:
                return clean
    except Exception:
        return f"<{type(value).__name__}>"
    return value
