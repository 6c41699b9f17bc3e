"""A job's payload: the arguments of its handler, as JSON that comes back exactly or is refused."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NoReturn, NotRequired

from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import CoreConfig, SchemaSerializer
from typing_extensions import TypedDict

from rota.errors import PayloadError, UsageError, did_you_mean
from rota.model.options import is_job_option
from rota.model.roundtrip import difference, has_nul, is_plain, show
from rota.model.secret import MARK, NO_KEY, Record, check_key, find_secrets, may_store, needs_key
from rota.model.shape import hash_shape
from rota.model.signature import Parameter, read_signature
from rota.model.vault import Records, carry_over, open_payload, seal_payload

MAX_PAYLOAD_BYTES = 1024 * 1024

SUPPORTED = (
    "Supported are str, int, float, bool, None, bytes, datetime, date, time, timedelta, Decimal, UUID, Path, enums and Literal; "
    "list, tuple, set and dict of these; dataclasses, named tuples, TypedDicts and pydantic models."
)
_INCOMPLETE = ("class-not-fully-defined", "undefined-annotation")  # pydantic's codes: what is missing is said in its first line

_READ = ConfigDict(extra="forbid", allow_inf_nan=False, val_json_bytes="base64")
_WRITTEN = CoreConfig(ser_json_bytes="base64")


class PayloadSchema:
    """What a task's payload must look like: from its handler's signature, by pydantic."""

    def __init__(self, task: str, parameters: list[Parameter]) -> None:
        self.task = task
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._positional = [parameter.name for parameter in parameters if not parameter.keyword_only]
        self._model = _sole_model(parameters)
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(self._model or _typed_dict(task, parameters))
            adapter.rebuild(raise_errors=True)
            self.json_schema = _object_schema(adapter)
        except (PydanticUserError, NameError, TypeError) as error:
            raise UsageError(f"task {task}: {_no_json_form(parameters, error)}") from error
        self.has_secrets = MARK in json.dumps(self.json_schema)
        self.accepts_nothing = not self.json_schema.get("required")
        self._plain = self._model is None and all(is_plain(parameter.annotation) for parameter in parameters)
        self._check = adapter.validator.validate_python
        # Of our own making because pydantic's leaves out the configuration of a TypedDict.
        self._dump = adapter.serializer.to_json if self._model else SchemaSerializer(adapter.core_schema, _WRITTEN).to_json
        self._load = adapter.validator.validate_json

    @classmethod
    def from_handler(cls, handler: Callable[..., Any], task: str | None = None) -> tuple[PayloadSchema, bool]:
        """The schema of `handler`'s payload, and whether its first parameter is the context."""
        name = task or handler.__name__
        parameters, wants_context = read_signature(handler, name)
        return cls(name, parameters), wants_context

    def encode(self, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> str:
        """The payload of a call with Python values, whose types must be those of the signature."""
        given: Any = self._bind(args, kwargs or {}) if args else kwargs or {}
        if self._model is not None:
            given = self._sole_argument(given)
        try:
            value = self._check(given, strict=True)
        except ValidationError as error:
            self._refuse(error, called=True)
        except RecursionError:
            self._refuse_depth()
        if self._plain:
            if value != given:
                self._refuse_rounding(given, value, list(given))
        elif self._model is None:
            self._refuse_rounding(given, value, [name for name in given if type(given[name]) is int])
        return self._to_text(value)

    def encode_json(self, payload: str | bytes | Mapping[str, Any], records: Records | None = None) -> str:
        """The payload of a call with JSON values, converted to the types of the signature where JSON has none.

        With `records` it may have secrets that are stored in one of these.
        """
        try:
            text = payload if isinstance(payload, str | bytes) else json.dumps(payload, allow_nan=False)
            if records is not None and self.has_secrets and isinstance(text, str):
                text = open_payload(text, records, self.task)
            return self._to_text(self._load(text))
        except ValidationError as error:
            self._refuse(error)
        except RecursionError:
            self._refuse_depth()
        except (TypeError, ValueError) as error:
            if isinstance(error, PayloadError):
                raise
            raise PayloadError(f"{self.task}: the payload is not JSON: {error}") from error

    def seal_own(self, given: Mapping[str, Any], *, default: str, before: str, record: Record) -> dict[str, Any]:
        """Return the members of a payload as a schedule or a task's settings store them in this record, secrets sealed.

        With the `default` for the rest they must fit the signature. `before` is what is stored there now, of which `[redacted]`
        keeps a secret.
        """
        text, lost = carry_over(before, json.dumps(given), self.task)
        if lost:
            raise PayloadError(
                f"{self.task}: {', '.join(lost)} cannot be kept, because the URL has another origin: give these secrets again"
            )
        own, rest = json.loads(text), json.loads(default)
        records = {"task": Record("task", self.task), record.kind: record}
        whole = json.loads(self.encode_json({**rest, **own}, records))
        if not self.has_secrets:
            return dict(given)
        by_alias = not own.keys() <= whole.keys()
        kept = {name: value for name, value in whole.items() if name in own or (by_alias and name not in rest)}
        sealed: dict[str, Any] = json.loads(seal_payload(json.dumps(kept), record, self.task))
        return sealed

    @cached_property
    def version(self) -> str:
        """Tell this schema from those of other versions of the task."""
        return hash_shape(self.json_schema)

    def pick(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """What this task has parameters for."""
        if self.json_schema["additionalProperties"]:
            return payload
        return {name: value for name, value in payload.items() if name in self.json_schema.get("properties", {})}

    def decode(self, text: str, records: Records | None = None) -> dict[str, Any]:
        """The handler's keyword arguments; PayloadError when `text` does not fit the signature.

        With `records` it may have secrets that are stored in one of these.
        """
        if records is not None and self.has_secrets:
            text = open_payload(text, records, self.task)
        try:
            value = self._load(text)
        except ValidationError as error:
            self._refuse(error)
        return value if self._model is None else {self._sole_name: value}

    @property
    def _sole_name(self) -> str:
        return next(iter(self._parameters))

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._positional):
            takes = f"{len(self._positional)} ({', '.join(self._positional)})" if self._positional else "none"
            raise PayloadError(f"{self.task}: {len(args)} positional arguments given, it takes {takes}")
        bound = dict(zip(self._positional, args, strict=False))
        for name, value in kwargs.items():
            if name in bound:
                raise PayloadError(f"{self.task}: {name} is given twice, by position and by name")
            bound[name] = value
        return bound

    def _sole_argument(self, given: dict[str, Any]) -> Any:
        name = self._sole_name
        for other in given:
            if other != name:
                raise PayloadError(self._unknown(other, called=True))
        if name not in given:
            raise PayloadError(f"{self.task}: {name} is missing, expected {self._parameters[name].expected}")
        if not isinstance(given[name], self._parameters[name].annotation):  # pydantic would take a dict for it
            raise PayloadError(f"{self.task}: {name}={show(given[name])} does not fit, expected {self._parameters[name].expected}")
        return given[name]

    def _to_text(self, value: Any) -> str:
        if self.has_secrets:
            if needs_key(value):
                check_key(self.task)
            elif not may_store(key_needed=False) and find_secrets(value):
                raise PayloadError(f"{self.task}: its secrets cannot be stored: {NO_KEY}")
        try:
            raw = self._dump(value, by_alias=True, warnings=False)
        except RecursionError:
            self._refuse_depth()
        except ValueError as error:
            raise PayloadError(f"{self.task}: {self._culprit(value)}cannot be written as JSON: {error}") from error
        if len(raw) > MAX_PAYLOAD_BYTES:
            raise PayloadError(
                f"{self.task}: the payload is {len(raw)} bytes, more than the {MAX_PAYLOAD_BYTES} allowed: "
                "store the data elsewhere and enqueue a reference to it"
            )
        text = raw.decode()
        if has_nul(text):
            raise PayloadError(f"{self.task}: {self._culprit(value)}has a NUL character, which PostgreSQL cannot store")
        if not self._plain:
            self._compare(value, text)
        return text

    def _refuse_rounding(self, given: Mapping[str, Any], value: Mapping[str, Any], names: list[str]) -> None:
        # An int for a float is fine, but one of more than 53 bits would be another number.
        for name in names:
            if value[name] != given[name]:
                raise PayloadError(f"{self.task}: {name}={show(given[name])} would arrive as {show(value[name])}")

    def _compare(self, value: Any, text: str) -> None:
        try:
            arrived = self._load(text)
            found = difference(value, arrived)
        except ValidationError as error:
            reason = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(str(part) for part in reason["loc"])
            raise PayloadError(f"{self.task}: {where or 'the payload'} would not come back from JSON: {reason['msg']}") from None
        except RecursionError:
            self._refuse_depth()
        if found is not None:
            where, sent, got = found
            name = self._sole_name if self._model is not None else ""
            raise PayloadError(
                f"{self.task}: {(name + where).lstrip('.')}={show(sent)} ({type(sent).__name__}) "
                f"would arrive as {show(got)} ({type(got).__name__})"
            )

    def _culprit(self, value: Any) -> str:
        """`name=value ` of the first argument that cannot be stored by itself, for messages."""
        items = value.items() if isinstance(value, dict) else vars(value).items()
        for name, item in items:
            try:
                text = json.dumps(item, default=str, ensure_ascii=False).encode().decode()
            except (ValueError, TypeError, RecursionError):
                return f"{name}={show(item)} "
            if has_nul(text):
                return f"{name}={show(item)} "
        return "the payload "

    def _unknown(self, name: str, *, called: bool) -> str:
        names = list(self.json_schema.get("properties", {})) if self._model is None else list(self._parameters)
        hint = did_you_mean(name, names, f"it takes {', '.join(names) or 'none'}")
        if called and is_job_option(name):
            hint += f'; an option of the job goes into using(), as in {self.task}.using(delay="5m").enqueue(...)'
        return f"{self.task} has no parameter {name}: {hint}"

    def _refuse(self, error: ValidationError, *, called: bool = False) -> NoReturn:
        reasons = error.errors(include_url=False, include_context=False)
        # A misspelled name is both missing and unknown; the unknown one is what helps.
        reason = next((each for each in reasons if each["type"] == "extra_forbidden"), reasons[0])
        loc = reason["loc"]
        where = ".".join(str(part) for part in loc) or (self._sole_name if self._model else "the payload")
        parameter = self._parameters.get(str(loc[0])) if loc and self._model is None else None
        expected = f", expected {parameter.expected}" if parameter is not None else ""
        if reason["type"] == "extra_forbidden" and len(loc) == 1:
            message = self._unknown(where, called=called)
        elif reason["type"] == "missing":
            message = f"{self.task}: {where} is missing{expected}"
        else:
            given = "" if self.has_secrets else f"={show(reason['input'])}"  # it may be one, or have one inside
            message = f"{self.task}: {where}{given} does not fit{expected}: {reason['msg']}"
        raise PayloadError(message) from None

    def _refuse_depth(self) -> NoReturn:
        raise PayloadError(f"{self.task}: the payload is nested too deeply: at most about 200 levels") from None


def _no_json_form(parameters: list[Parameter], error: Exception) -> str:
    """Name the parameter whose type cannot be stored, and what can be."""
    for parameter in parameters:
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(parameter.annotation)
            adapter.rebuild(raise_errors=True)
            adapter.json_schema()
        except (PydanticUserError, NameError, TypeError) as found:
            incomplete = found if getattr(found, "code", None) in _INCOMPLETE else None
            if incomplete is not None:
                return f"the type of parameter {parameter.name}, {parameter.expected}, is incomplete: {_first_line(found)}"
            return (
                f"parameter {parameter.name} has the type {parameter.expected}, which cannot be stored as JSON. {SUPPORTED} "
                "For any other object pass its id, and load it in the handler"
            )
    return f"its parameters cannot be stored as JSON: {_first_line(error)}. {SUPPORTED}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _sole_model(parameters: list[Parameter]) -> type[BaseModel] | None:
    """The model whose fields are the payload, if the handler takes that one argument and nothing else."""
    if len(parameters) != 1 or not parameters[0].required:
        return None
    hint = parameters[0].annotation
    is_model = inspect.isclass(hint) and issubclass(hint, BaseModel) and not issubclass(hint, RootModel)
    return hint if is_model else None


def _typed_dict(task: str, parameters: list[Parameter]) -> Any:
    # An argument that is left out stays out of the payload, so that the handler's own default applies when it runs.
    fields = {p.name: p.annotation if p.required else NotRequired[p.annotation] for p in parameters}
    build: Any = TypedDict  # type checkers know it in its literal form only
    shape = build(task, fields)
    shape.__pydantic_config__ = _READ
    return shape


def _object_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    schema = adapter.json_schema()
    if reference := schema.pop("$ref", None):  # a model that refers to itself
        schema = {**schema["$defs"][reference.rpartition("/")[2]], **schema}
    if schema.get("additionalProperties") is not True:
        schema["additionalProperties"] = False
    schema.pop("title", None)
    return schema
