"""The commented `rota.toml` that `rota init` writes: every key with its words, its range and its default."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from rota.config.editing import format_value, plain_value
from rota.config.loading import SECTIONS, describe_range
from rota.config.settings import Settings

WIDTH = 110
HEAD = """\
# Settings of Rota. What is commented out shows the default, or an example where there is none.
# `rota config set KEY VALUE` changes this file, and `rota config show --sources` tells what holds and why:
# variables such as ROTA_JOBS_WORKER_CONCURRENCY overrule it, and flags overrule those.
"""


def render_template(values: Mapping[tuple[str, str], Any]) -> str:
    """The text of the file, with these values in force."""
    return HEAD + "".join(_section(section, values) for section in SECTIONS)


def about(section: str) -> str:
    """What a section is about, in a few words."""
    words = (Settings.model_fields[section].annotation.__doc__ or "").strip().partition("\n")[0]
    return words.split(": ", 1)[-1].rstrip(".")


def _section(section: str, values: Mapping[tuple[str, str], Any]) -> str:
    lines = ["", f"[{section}]  # {about(section)}"]
    for key, field in SECTIONS[section].items():
        lines.append("")
        lines += textwrap.wrap(_words(field), WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
        if (section, key) in values:
            lines.append(f"{key} = {format_value(values[section, key])}")
        else:
            lines.append(f"# {key} = {format_value(shown_default(field))}")
    return "\n".join(lines) + "\n"


def shown_default(field: FieldInfo) -> Any:
    """The default as it would be in the file, or an example for a key that has none."""
    default = field.get_default(call_default_factory=True)
    return plain_value((field.examples or [""])[0] if default is None else default)


def _words(field: FieldInfo) -> str:
    described, allowed = field.description or "", describe_range(field)
    plain = field.annotation is bool or allowed.lower() == described.rstrip(".").replace("`", "").lower()
    return described if plain else f"{described} ({allowed[0].upper()}{allowed[1:]}.)"
