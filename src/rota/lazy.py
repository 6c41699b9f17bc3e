"""Modules that are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazy:
    """Stands for a module until somebody asks it for something."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
