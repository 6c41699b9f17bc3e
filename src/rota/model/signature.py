"""Reading a handler's signature: which parameters are the payload, and of what types."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType, SimpleNamespace
from typing import Any

from rota.errors import UsageError

_REFUSED_KINDS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*{}: name each argument",
    inspect.Parameter.VAR_KEYWORD: "**{}: name each argument",
    inspect.Parameter.POSITIONAL_ONLY: "positional-only {}: a payload has names; remove the /",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a payload."""

    name: str
    annotation: Any
    required: bool
    keyword_only: bool

    @property
    def expected(self) -> str:
        """The type as its author wrote it, for messages."""
        if isinstance(self.annotation, type):
            return self.annotation.__name__
        return inspect.formatannotation(self.annotation).replace("typing.", "")


def read_signature(handler: Callable[..., Any], task: str) -> tuple[list[Parameter], bool]:
    """The payload's parameters, and whether the first parameter is the context."""
    found = list(inspect.signature(handler).parameters.values())
    hints = _resolve_hints(handler, task)
    wants_context = bool(found) and _is_context(hints.get(found[0].name))
    parameters = []
    for parameter in found[1:] if wants_context else found:
        if refusal := _REFUSED_KINDS.get(parameter.kind):
            raise UsageError(f"task {task} cannot take {refusal.format(parameter.name)}")
        hint = hints.get(parameter.name, Any)
        if _is_context(hint):
            raise UsageError(f"task {task}: the context must be the first parameter, not {parameter.name}")
        parameters.append(
            Parameter(
                parameter.name,
                hint,
                required=parameter.default is parameter.empty,
                keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
            )
        )
    return parameters, wants_context


def _is_context(hint: Any) -> bool:
    # By name, since the model knows nothing of the engine, and a Context imported for type checking only stays text.
    if isinstance(hint, str):
        return hint.rpartition(".")[2] == "Context"
    bases = getattr(hint, "__mro__", ())
    return any(base.__module__ == "rota.engine.context" and base.__name__ == "Context" for base in bases)


def _resolve_hints(handler: Callable[..., Any], task: str) -> dict[str, Any]:
    handler = inspect.unwrap(handler)
    written = {name: hint for name, hint in handler.__annotations__.items() if name != "return"}
    unresolved = {name: hint for name, hint in written.items() if _is_context(hint) and isinstance(hint, str)}
    to_resolve = SimpleNamespace(__annotations__={k: v for k, v in written.items() if k not in unresolved})
    names: dict[str, Any] = handler.__globals__
    try:
        return unresolved | typing.get_type_hints(to_resolve, names, include_extras=True)
    except NameError:
        pass  # perhaps a class of the function that defines the task
    try:
        return unresolved | typing.get_type_hints(to_resolve, names, dict(_defining_locals(handler)), include_extras=True)
    except NameError as error:
        raise UsageError(
            f"task {task}: an annotation names {error.name!r}, which cannot be found when the task is defined: "
            "import it outside `if TYPE_CHECKING`"
        ) from error


def _defining_locals(handler: Callable[..., Any]) -> Mapping[str, Any]:
    """The local names of the function inside which the handler is defined."""
    outer = handler.__qualname__.rpartition(".<locals>.")[0]
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_qualname != outer:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals
