"""What is said over CalDAV: requests as XML, and what answers mean. Of an answer only what was asked for is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from rota.apps.calendars.errors import NotACalendar

DAV = "{DAV:}"
CALDAV = "{urn:ietf:params:xml:ns:caldav}"
CALENDARSERVER = "{http://calendarserver.org/ns/}"

T = TypeVar("T")
Reader: TypeAlias = Callable[[bytes], T]

_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'
_SPACES = 'xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav" xmlns:CS="http://calendarserver.org/ns/"'

ABOUT = (
    f"{_HEAD}<propfind {_SPACES}><prop><resourcetype/><sync-token/><CS:getctag/><current-user-privilege-set/></prop></propfind>"
).encode()
LIST = f"{_HEAD}<propfind {_SPACES}><prop><getetag/><resourcetype/><getcontenttype/></prop></propfind>".encode()


class Answered(NamedTuple):
    """What a multi-status says of one resource."""

    href: str
    status: int  # of the resource itself, or of what was asked for
    etag: str | None = None
    text: str | None = None
    is_collection: bool = False
    kind: str = ""  # its content type


class Collection(NamedTuple):
    """What a collection says of itself."""

    is_calendar: bool
    token: str | None
    ctag: str | None
    writable: bool


def sync_collection(token: str) -> bytes:
    """Asks for what has changed since a token."""
    return (
        f"{_HEAD}<sync-collection {_SPACES}><sync-token>{escape(token)}</sync-token><sync-level>1</sync-level>"
        "<prop><getetag/></prop></sync-collection>"
    ).encode()


def multiget(paths: Iterable[str]) -> bytes:
    """Asks for the texts of resources."""
    hrefs = "".join(f"<href>{escape(path)}</href>" for path in paths)
    return f"{_HEAD}<C:calendar-multiget {_SPACES}><prop><getetag/><C:calendar-data/></prop>{hrefs}</C:calendar-multiget>".encode()


def read_collection(body: bytes) -> Collection:
    """What a collection has said of itself."""
    root = _parse(body)
    properties = [prop for response in root.iter(f"{DAV}response") for prop in _properties(response)]
    types = {element.tag for prop in properties for kind in prop.iter(f"{DAV}resourcetype") for element in kind}
    rights = {element.tag for prop in properties for right in prop.iter(f"{DAV}privilege") for element in right}
    writes = {f"{DAV}{name}" for name in ("all", "write", "write-content", "bind")}
    return Collection(
        f"{CALDAV}calendar" in types,
        _text_of(properties, f"{DAV}sync-token"),
        _text_of(properties, f"{CALENDARSERVER}getctag"),
        not rights or bool(rights & writes),
    )


def read_multistatus(body: bytes) -> tuple[list[Answered], str | None]:
    """What is said of each resource, and the sync token that comes after it."""
    root = _parse(body)
    found = [_read_response(response) for response in root.findall(f"{DAV}response")]
    token = root.find(f"{DAV}sync-token")
    return [each for each in found if each is not None], (token.text or "").strip() or None if token is not None else None


def names_precondition(body: bytes, name: str) -> bool:
    """Whether an error says that this is what was not fulfilled, such as `valid-sync-token`."""
    return f"{name}".encode() in body[:65536]


def _parse(body: bytes) -> ElementTree.Element:
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:  # nobody needs them here, but who means harm
        raise NotACalendar("the answer is not plain XML: it has a document type")
    try:
        return ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise NotACalendar(f"the answer is not XML: {error}") from None


def _read_response(response: ElementTree.Element) -> Answered | None:
    href = response.find(f"{DAV}href")
    if href is None or not (href.text or "").strip():
        return None
    path = (href.text or "").strip()
    status = response.find(f"{DAV}status")
    if status is not None:
        return Answered(path, _status(status.text))
    properties = list(_properties(response))
    if not properties:
        failed = [_status(each.text) for each in response.iter(f"{DAV}status")]
        return Answered(path, failed[0] if failed else 404)
    data = _text_of(properties, f"{CALDAV}calendar-data", strip=False)
    return Answered(
        path,
        200,
        _text_of(properties, f"{DAV}getetag"),
        data,
        any(kind.find(f"{DAV}collection") is not None for prop in properties for kind in prop.iter(f"{DAV}resourcetype")),
        _text_of(properties, f"{DAV}getcontenttype") or "",
    )


def _properties(response: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The properties that were found, of all that were asked for."""
    for propstat in response.findall(f"{DAV}propstat"):
        status = propstat.find(f"{DAV}status")
        prop = propstat.find(f"{DAV}prop")
        if prop is not None and (status is None or _status(status.text) == 200):
            yield prop


def _text_of(properties: Iterable[ElementTree.Element], tag: str, *, strip: bool = True) -> str | None:
    for prop in properties:
        element = prop.find(tag)
        if element is not None and element.text and element.text.strip():
            return element.text.strip() if strip else element.text
    return None


def _status(line: str | None) -> int:
    words = (line or "").split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 500
