"""Send processes that a test starts to the test's database, whatever their code names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rota.config.settings import Settings

VARIABLE = "ROTA_REDIRECT"


def settings_at(settings: Settings, dsn: str) -> Settings:
    """Return the settings with another database."""
    place = {"url": dsn, "pooled": False, "password_file": None, "password_command": None}
    return settings.model_copy(update={"database": settings.database.model_copy(update=place)})


def redirected(settings: Settings) -> Settings:
    """Return the settings, with the database of the test that has started this process, if one has."""
    owner, _, dsn = os.environ.get(VARIABLE, "").partition(" ")
    return settings_at(settings, dsn) if dsn and owner != str(os.getpid()) else settings


@contextmanager
def redirecting(dsn: str) -> Iterator[None]:
    """Send the processes that are started during a block to this database."""
    outer = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = f"{os.getpid()} {dsn}"
    try:
        yield
    finally:
        if outer is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = outer
