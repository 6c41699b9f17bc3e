"""Where settings come from: the file, the environment, flags; and what is said of those that are wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from annotated_types import Ge, Le
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from rota.config.sections import AppSettings, Section
from rota.config.settings import Settings
from rota.errors import ConfigError, did_you_mean

FILE_NAME = "rota.toml"
FILE_VARIABLE = "ROTA_CONFIG"
PREFIX = "ROTA_"
SERVICE_LINK = "tcp://"  # Kubernetes sets ROTA_SERVER_PORT=tcp://10.0.0.7:80 in every pod beside a service rota-server

# Variables that programs share, and the setting that each one stands for. The ROTA_ variable of the same setting wins.
SHARED_VARIABLES = {
    "ENV": ("app", "env"),
    "DATABASE_URL": ("database", "url"),
    "JWT_SECRET": ("auth", "secret"),
    "MAGIC_LINK_BASE_URL": ("server", "url"),
    "RESEND_API_KEY": ("mail", "resend_key"),
    "RESEND_FROM": ("mail", "sender"),
}
# Two of them often hold what only another program understands, such as ENV=test or DATABASE_URL=mysql://…: that is ignored.
_MEANT_FOR_ROTA = {
    "ENV": re.compile(rf"({'|'.join(get_args(AppSettings.model_fields['env'].annotation))})\Z"),
    "DATABASE_URL": re.compile(r"postgres|\s*\w+\s*="),
}


_HAS_PASSWORD = re.compile(r"^\w+://[^/@]*:[^/@]+@|\bpassword\s*=")


@dataclass(frozen=True)
class Loaded:
    """The settings in force where nothing is wrong, where each that was set comes from, and what is wrong."""

    settings: Settings | None
    sources: Mapping[tuple[str, str], str]
    problems: Sequence[str]

    def checked(self) -> Settings:
        """The settings; an error that names everything that is wrong."""
        if self.settings is None:
            raise ConfigError("\n".join(self.problems))
        return self.settings


def load_settings(path: Path | None = None, **overrides: Any) -> Settings:
    """The settings in force; `overrides` such as `jobs_worker_concurrency=8` win, and None is no override."""
    from rota.config.variables import warn_of_unknown_variables

    settings = load_with_sources(path, overrides).checked()
    warn_of_unknown_variables()
    return settings


def load_with_sources(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Loaded:
    """The same, with where each comes from and what is wrong."""
    file = find_file(path)
    return load(file, read_file(file) if file else {}, overrides or {})


def load(file: Path | None, content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Loaded:
    """What this content of this file comes to, with the environment and the overrides over it."""
    values: dict[str, dict[str, Any]] = {}
    sources: dict[tuple[str, str], str] = {}
    problems: list[str] = []
    settings: Settings | None = None
    for section, key, value, source in _layers(file, content, overrides):
        if key not in SECTIONS.get(section, {}):
            problems.append(unknown(section, key, source))
            continue
        values.setdefault(section, {})[key] = value
        sources[section, key] = source
    try:
        settings = Settings.model_validate(values)
        problems += _wrong_together(settings)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            section, key = (str(part) for part in detail["loc"][:2])
            problems.append(invalid(section, key, values[section][key], sources[section, key]))
    return Loaded(None if problems else settings, sources, list(dict.fromkeys(problems)))


def describe_range(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    least = next((limit.ge for limit in field.metadata if isinstance(limit, Ge)), None)
    most = next((limit.le for limit in field.metadata if isinstance(limit, Le)), None)
    if least is not None or most is not None:
        kind = "a whole number" if field.annotation is int else "a number"
        return f"{kind} from {least} to {most}"
    if field.annotation is bool:
        return "true or false"
    if choices := [str(choice) for choice in get_args(field.annotation) if isinstance(choice, str)]:
        return "one of " + ", ".join(choices)
    words = (field.description or "").rstrip(".").replace("`", "")
    return words[:1].lower() + words[1:]


SECTIONS: dict[str, dict[str, FieldInfo]] = {
    name: dict(section.annotation.model_fields)
    for name, section in Settings.model_fields.items()
    if isinstance(section.annotation, type) and issubclass(section.annotation, Section)
}


def _layers(file: Path | None, content: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    """Yields section, key, value and source, the weakest source first."""
    for section, table in content.items():
        if not isinstance(table, dict):
            yield "", section, table, str(file)
            continue
        for key, value in table.items():
            yield section, key, value, str(file)
    for variable, (section, key) in SHARED_VARIABLES.items():
        text = os.environ.get(variable)
        if text and (variable not in _MEANT_FOR_ROTA or _MEANT_FOR_ROTA[variable].match(text)):
            yield section, key, text, variable
    for variable, text in os.environ.items():
        section, _, key = variable.removeprefix(PREFIX).lower().partition("_")
        # An empty variable is as good as none. One that is no setting is reported by `unknown_variables`: a typo in the
        # environment, or a variable of another program, must not stop every command.
        if variable.startswith(PREFIX) and key in SECTIONS.get(section, ()) and text and not text.startswith(SERVICE_LINK):
            yield section, key, text, variable
    for name, value in overrides.items():
        if value is not None:
            section, _, key = name.partition("_")
            yield section, key, value, "an argument or flag"


def find_file(path: Path | None = None) -> Path | None:
    """The file that is read: the one given, the one that ROTA_CONFIG names, or ./rota.toml if there is one."""
    if path is not None:
        named, source = path, "the path given"
    elif variable := os.environ.get(FILE_VARIABLE):
        named, source = Path(variable), FILE_VARIABLE
    else:
        return Path(FILE_NAME) if Path(FILE_NAME).is_file() else None
    if not named.is_file():
        raise ConfigError(f"{source} is {named}, which is not a file: name a {FILE_NAME} that exists")
    return named


def read_file(file: Path) -> dict[str, Any]:
    """What a file says."""
    import tomllib  # here, since many are configured by their environment alone

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


def unknown(section: str, key: str, source: str) -> str:
    """What to say of a key that does not exist."""
    known = [f"{each}.{name}" for each, names in SECTIONS.items() for name in names]
    name = ".".join(filter(None, (section, key)))
    advice = did_you_mean(name, known, f"the sections are {', '.join(SECTIONS)}")
    return f"{name} is not a setting ({source}); {advice}"


def invalid(section: str, key: str, value: Any, source: str) -> str:
    """What to say of a value that is not allowed."""
    field = SECTIONS[section][key]
    shown = repr(value) if field.repr else "***"
    return f"{section}.{key}={shown} is not allowed ({source}); allowed: {describe_range(field)}"


def _wrong_together(settings: Settings) -> Iterator[str]:
    database, jobs = settings.database, settings.jobs
    ways = [f"database.{name}" for name in ("password_file", "password_command") if getattr(database, name) is not None]
    if ways and database.url is not None and _HAS_PASSWORD.search(database.url):
        ways.insert(0, "the password in database.url")
    if len(ways) > 1:
        yield f"{' and '.join(ways)} exclude each other: keep one of them; `off` clears a setting of a weaker source"
    if database.pool_min > database.pool_max:
        yield (
            f"database.pool_min={database.pool_min} is more than database.pool_max={database.pool_max}: "
            "lower the one or raise the other"
        )
    if jobs.heartbeat_s * 2 > jobs.lease_duration_s:
        yield (
            f"jobs.heartbeat_s={jobs.heartbeat_s:g} is more than half of "
            f"jobs.lease_duration_s={jobs.lease_duration_s:g}: one missed heartbeat would lose the lease"
        )
