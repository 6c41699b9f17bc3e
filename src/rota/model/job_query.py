"""A search for jobs in one line of text: `state:failed task:send_* payload.user_id:42 since:1h time out`.

Qualifiers are a name, a colon and a value, which stands in quotes where it has spaces; everything else is text of the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.errors import InvalidQuery, UsageError, did_you_mean
from rota.model.duration import parse_duration
from rota.model.filters import JOB_STATES, JobFilter, PayloadMatch

MAX_CHARS = 2000
QUALIFIERS = ("state", "task", "queue", "key", "owner", "text", "error", "since", "until")  # and payload.…

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_NAME = re.compile(rf"[A-Za-z_]+(?:\.(?:{_QUOTED}|[^\s:.\"]+))*")
_PART = re.compile(rf"\.({_QUOTED}|[^\s:.\"]+)")
_VALUE = re.compile(rf"{_QUOTED}(?=\s|\Z)|[^\s\"]+")


@dataclass(frozen=True, slots=True)
class _Term:
    """One word of a search: without a name it is text."""

    position: int
    name: str
    path: tuple[str, ...]
    value: str
    quoted: bool


def parse_query(text: str) -> JobFilter:
    """The filter that a search means; an error says where in the text it cannot be read."""
    if len(text) > MAX_CHARS:
        raise InvalidQuery(f"q has {len(text)} characters: at most {MAX_CHARS}", MAX_CHARS)
    given: dict[str, Any] = {}
    states: list[str] = []
    payload: list[PayloadMatch] = []
    words: list[str] = []
    for term in _terms(text):
        match term.name:
            case "":
                words.append(term.value)
            case "payload":
                payload.append(_checked(term, lambda term=term: PayloadMatch(term.path, term.value, exact=term.quoted)))
            case "state":
                states += _read_states(term)
            case name if name in given:
                raise _wrong(term, f"{name} is given twice: once is enough")
            case "since" | "until" as name:
                given[name] = _checked(term, lambda term=term: read_moment(term.name, term.value))
            case name:
                given[name] = term.value
    if words and "text" in given:
        raise InvalidQuery("q has both text: and words without a name, which are the same: use one of them", 0)
    if words:
        given["text"] = " ".join(words)
    if "error" in given:
        given["fingerprint"] = given.pop("error")
    try:
        return JobFilter(states=tuple(dict.fromkeys(states)), payload=tuple(payload), **given)
    except UsageError as error:
        raise InvalidQuery(f"q: {error}", 0) from error


def read_moment(name: str, value: str) -> datetime | timedelta:
    """A time as people write it: `1h` ago, a day such as 2026-02-22, or a time with its zone; without one it is UTC."""
    if value[:1].isdigit() and ("-" in value or "T" in value):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise UsageError(
                f"{name}={value!r} is not a time: write 2026-02-22 or 2026-02-22T10:00:00Z, or 1h for an hour ago"
            ) from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return parse_duration(value, name=name)


def _terms(text: str) -> Iterator[_Term]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        begin, name = at, ""
        path: tuple[str, ...] = ()
        named = _NAME.match(text, at)
        if named is not None and text[named.end() : named.end() + 1] == ":":
            name, path = _read_name(named[0], begin)
            at = named.end() + 1
            if at == len(text) or text[at].isspace():
                raise InvalidQuery(f"q at {at}: {named[0]}: has no value; write one right after the colon", at)
        value = _VALUE.match(text, at)
        if value is None:
            raise InvalidQuery(f"q at {at}: a quote that is not closed, or more right after one", at)
        at = value.end()
        if at < len(text) and not text[at].isspace():
            raise InvalidQuery(
                f"q at {at}: a quote within a word: put all of it in quotes, and a backslash before a quote in it", at
            )
        term = _Term(begin, name, path, _unquote(value[0]), value[0].startswith('"'))
        if not name and not term.quoted and ":" in term.value:
            raise _wrong(term, f"{term.value!r} is not a qualifier: text with a colon stands in quotes")
        if not term.value and name != "payload":
            raise _wrong(term, f"{name or 'text'} is empty: leave it out")
        yield term


def _read_name(text: str, position: int) -> tuple[str, tuple[str, ...]]:
    name, dot, _ = text.partition(".")
    if name == "payload":
        if not dot:
            raise InvalidQuery(f"q at {position}: payload needs a member, as in payload.user_id:42", position)
        return name, tuple(_unquote(part[1]) for part in _PART.finditer(text))
    if dot or name not in QUALIFIERS:
        hint = did_you_mean(text, (*QUALIFIERS, "payload"), f"there are {', '.join(QUALIFIERS)} and payload.…")
        raise InvalidQuery(f"q at {position}: {text!r} is not a qualifier: {hint}; text with a colon stands in quotes", position)
    return name, ()


def _read_states(term: _Term) -> list[str]:
    states = term.value.split(",")
    for state in states:
        if state not in JOB_STATES:
            raise _wrong(term, f"{state!r} is not a state of jobs: one of {', '.join(JOB_STATES)}")
    return states


def _checked(term: _Term, read: Any) -> Any:
    try:
        return read()
    except UsageError as error:
        raise _wrong(term, str(error)) from error


def _wrong(term: _Term, why: str) -> InvalidQuery:
    return InvalidQuery(f"q at {term.position}: {why}", term.position)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text.startswith('"') else text
