"""Options as other job systems write them: `--type` for `--task`, and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.errors import UsageError

# By noun: the option, and the parameter of our commands that it stands for; docs/other-names.md shows them to users.
OTHER_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "jobs": {"--type": "task"},
    "schedules": {"--name": "name", "--job-type": "task", "--timezone": "tz"},
}


def with_own_options(noun: str, group: Any, words: Sequence[str]) -> list[str]:
    """Rewrite a command's words, after the noun, so that they use our own names only."""
    names = OTHER_OPTIONS.get(noun, {})
    command = group.commands.get(words[0]) if words and names else None
    if command is None or not any(word.partition("=")[0] in names for word in words):
        return list(words)
    parameters = {each.name: each for each in command.params}
    reader = _Reader(parameters, {other: own for other, own in names.items() if own in parameters})
    return [words[0], *reader.rewrite(list(words[1:]))]


class _Reader:
    """Reads the words of one command as Click would, and takes out the options of other systems."""

    def __init__(self, parameters: Mapping[str, Any], names: Mapping[str, str]) -> None:
        self._names = names
        self._parameters = parameters
        self._takes_value = {
            option: name
            for name, each in parameters.items()
            if each.param_type_name == "option" and not each.is_flag
            for option in each.opts
        }
        self._arguments = [name for name, each in parameters.items() if each.param_type_name == "argument"]
        self._given: dict[str, tuple[str, str]] = {}  # by parameter: the option of another system, and its value
        self._own: dict[str, str] = {}  # by parameter: the value that it has under our own name

    def rewrite(self, words: list[str]) -> list[str]:
        """Return the words with our own names; UsageError where both names are given and differ."""
        options, positional = self._split(words)
        for name, (other, value) in self._given.items():
            if name in self._arguments:
                continue
            self._agree(name, other, value)
            options += [self._parameters[name].opts[0], value]
        return [*options, "--", *self._fill(positional)]

    def _split(self, words: list[str]) -> tuple[list[str], list[str]]:
        options: list[str] = []
        positional: list[str] = []
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if word == "--":
                return options, positional + words
            if option in self._names:
                if not equals and not words:
                    raise UsageError(f"{option} needs a value: {option} VALUE")
                self._given[self._names[option]] = (option, value if equals else words.pop(0))
            elif word == "-" or not word.startswith("-"):
                positional.append(word)
            else:
                options.append(word)
                if (name := self._takes_value.get(option)) is not None and (equals or words):
                    self._own[name] = value if equals else words[0]
                    options += [] if equals else [words.pop(0)]
        return options, positional

    def _fill(self, positional: list[str]) -> list[str]:
        """Put what options have said of arguments into their places."""
        missing = [name for name in self._arguments if name not in self._given]
        if len(positional) > len(missing):
            self._own |= zip(self._arguments, positional, strict=False)
        for name in self._given.keys() & self._own.keys() & set(self._arguments):
            self._agree(name, *self._given[name])
        if len(positional) > len(missing):
            return positional
        rest = iter(positional)
        filled = [self._given[name][1] if name in self._given else next(rest, None) for name in self._arguments]
        return [each for each in filled if each is not None]

    def _agree(self, name: str, other: str, value: str) -> None:
        own = self._own.get(name, value)
        if own != value:
            shown = name.upper() if name in self._arguments else self._parameters[name].opts[0]
            raise UsageError(
                f"{shown}={own!r} and {other}={value!r} are two names of the same setting, and they differ: give only one of them"
            )
