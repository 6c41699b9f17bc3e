"""Changing `rota.toml` from a program: one key at a time, checked first, with everything else in the file left as it is."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError

from rota.config.loading import FILE_NAME, FILE_VARIABLE, SECTIONS, invalid, load, unknown
from rota.config.sections import Section
from rota.config.settings import Settings
from rota.errors import ConfigError

NEW_FILE_MODE = 0o600  # it will hold passwords and keys sooner or later


def file_to_edit() -> Path:
    """The file that settings are read from, whether it is there yet or not."""
    return Path(os.environ.get(FILE_VARIABLE) or FILE_NAME)


def split_name(name: str) -> tuple[str, str]:
    """Section and key of a setting that exists, as in `jobs.worker_concurrency`."""
    section, _, key = name.partition(".")
    if key not in SECTIONS.get(section, {}):
        raise ConfigError(unknown(section, key, "write it as section.key"))
    return section, key


def read_value(section: str, key: str, text: str) -> Any:
    """The value that a person has written, checked, and of the type that it has in the file."""
    field = SECTIONS[section][key]
    source = "the value given"
    try:
        text.encode()
        given = json.loads(text) if text.lstrip()[:1] in ("[", "{") and get_origin(field.annotation) in (tuple, dict) else text
        if field.annotation is bool and text not in ("true", "false"):  # pydantic would take yes, on and 1 too
            raise ConfigError(invalid(section, key, text, source))
        model: type[Section] = Settings.model_fields[section].annotation  # type: ignore[assignment]
        value = getattr(model.model_validate({key: given}), key)
    except (ValueError, RecursionError) as error:  # ValidationError, JSONDecodeError and UnicodeEncodeError are ValueErrors
        why = "" if isinstance(error, ValidationError) else f": {error}"
        raise ConfigError(invalid(section, key, text, source) + why) from None
    return text if isinstance(value, str) else plain_value(value, whole="." not in text and "e" not in text.lower())


def set_value(file: Path, section: str, key: str, value: Any) -> None:
    """Writes a checked value to the file, which is made if there is none; refuses what would be wrong together with the rest."""
    with _changing(file) as change:
        change.set(section, key, value)


def unset_value(file: Path, section: str, key: str) -> bool:
    """Takes a key out of the file, so that its default holds again; False if it was not there."""
    if not file.exists():
        return False
    with _changing(file) as change:
        return change.remove(section, key)


def write_file(file: Path, text: str, *, anew: bool, mode: int = NEW_FILE_MODE) -> bool:
    """Makes a file, all of it or nothing; one that is there is replaced if `anew`, and else left alone, which gives False."""
    target = Path(os.path.realpath(file))
    try:
        if anew:
            _replace(target, text.encode(), mode)
            return True
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as new:
            new.write(text.encode())
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error
    return True


def format_value(value: Any) -> str:
    """A value as TOML."""
    import tomlkit

    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        inline.update(value)
        return inline.as_string()
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ", ".join(format_value(each) for each in value) + "]"
    text: str = tomlkit.item(value).as_string()
    return text


def plain_value(value: Any, *, whole: bool = True) -> Any:
    """A value of the settings as the file has it: a list for a tuple, text for a path, 30 for 30.0 if `whole`."""
    match value:
        case float() if whole and value.is_integer():
            return int(value)
        case Path():
            return str(value)
        case BaseModel():
            return value.model_dump(exclude_unset=True)
        case tuple() | list():
            return [plain_value(each, whole=whole) for each in value]
    return value


class Change:
    """The text of a file, with changes to it."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self.text = text
        self._content = self._parse(text)
        self._before = set(load(file, self._content, {}).problems)

    def set(self, section: str, key: str, value: Any) -> None:
        """Gives a key this value."""
        wanted = {**self._content, section: {**self._table(section), key: value}}
        known = key in self._table(section)
        if (text := None if known else _with_line(self.text, section, key, value, bool(self._table(section)))) is not None:
            with suppress(tomllib.TOMLDecodeError):  # such as a line put into the middle of a text
                if tomllib.loads(text) == wanted:
                    self._take(text, wanted)
                    return
        self._take(_assigned(self.text, section, key, value), wanted)

    def remove(self, section: str, key: str) -> bool:
        """Takes a key out; False if it was not there."""
        import tomlkit

        table = self._table(section)
        if key not in table:
            return False
        document: Any = tomlkit.parse(self.text)
        del document[section][key]
        self._take(tomlkit.dumps(document), {**self._content, section: {name: table[name] for name in table if name != key}})
        return True

    def _take(self, text: str, wanted: Mapping[str, Any]) -> None:
        """Accepts the text if it means what is wanted, and nothing is wrong that was not wrong before."""
        found = self._parse(text)
        if {name: table for name, table in found.items() if table} != {name: table for name, table in wanted.items() if table}:
            raise ConfigError(f"{self._file} is written in a way that cannot be changed from here: change it by hand")
        if new := [problem for problem in load(self._file, found, {}).problems if problem not in self._before]:
            raise ConfigError("\n".join(new))
        self.text, self._content = text, found

    def _table(self, section: str) -> dict[str, Any]:
        table = self._content.get(section, {})
        if not isinstance(table, dict):
            raise ConfigError(unknown("", section, str(self._file)))
        return table

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{self._file} cannot be read: {error}") from error


@contextmanager
def _changing(file: Path) -> Iterator[Change]:
    """The change to be made, while nobody else makes one; written at the end, all of it or nothing."""
    target = Path(os.path.realpath(file))  # behind a link: the link stays
    try:
        folder = os.open(target.parent, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"{target.parent} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # of the folder: the file itself is another one after each change
        before = target.read_bytes().decode() if target.exists() else ""
        change = Change(file, before)
        yield change
        if change.text != before:
            _replace(target, change.text.encode())
            os.fsync(folder)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be changed: {error}") from error
    finally:
        os.close(folder)


def _replace(target: Path, content: bytes, mode: int | None = None) -> None:
    """Puts the content in the place of the file at once, with the rights that the file had, or with these."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            _set_rights(descriptor, target, mode)
            os.fsync(descriptor)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _set_rights(descriptor: int, target: Path, mode: int | None) -> None:
    try:
        known = target.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, NEW_FILE_MODE if mode is None else mode)
        return
    with suppress(PermissionError):  # somebody who may change another's file may not give one away
        os.fchown(descriptor, known.st_uid, known.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(known.st_mode) if mode is None else mode)


def _with_line(text: str, section: str, key: str, value: Any, has_table: bool) -> str | None:
    """The text with a line for a new key at a good place: below the line that shows its default, or below the last key."""
    end = "\r\n" if "\r\n" in text else "\n"
    line = f"{key} = {format_value(value)}{end}"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    heads = [number for number, each in enumerate(lines) if re.match(rf"\s*\[\s*{section}\s*\]", each)]
    if len(heads) != 1:
        return None if has_table or heads else "".join(lines) + (end if lines else "") + f"[{section}]{end}{line}"
    following = (number for number in range(heads[0] + 1, len(lines)) if lines[number].lstrip().startswith("["))
    inside = range(heads[0], next(following, len(lines)))
    shown = [number for number in inside if re.match(rf"\s*#\s*{key}\s*=", lines[number])]
    said = [number for number in inside if lines[number].strip() and not lines[number].lstrip().startswith("#")]
    place = (shown or said)[-1] + 1
    return "".join([*lines[:place], line, *lines[place:]])


def _assigned(text: str, section: str, key: str, value: Any) -> str:
    """The text with another value for a key, by a parser that keeps comments, order and spaces."""
    import tomlkit

    document: Any = tomlkit.parse(text)
    table = document.setdefault(section, tomlkit.table())
    known = table.get(key)
    if isinstance(known, dict) and isinstance(value, dict):
        for name in [name for name in known if name not in value]:
            del known[name]
        known.update(value)
    elif isinstance(known, list) and isinstance(value, list) and not any(isinstance(each, dict) for each in [*known, *value]):
        for each in [each for each in known if each not in value]:
            known.remove(each)
        for each in value[len(known) :]:
            known.append(each)
        if list(known) != value:
            table[key] = tomlkit.value(format_value(value))
    else:
        if isinstance(known, list):
            del table[key]
        table[key] = tomlkit.value(format_value(value))  # on one line: a table of its own would swallow what follows it
    return tomlkit.dumps(document)
