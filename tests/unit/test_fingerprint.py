"""Which failures belong together, and what is kept of an error."""

from __future__ import annotations

import json
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import HandlerFailed, JobTimeout
from rota.model.fingerprint import LENGTH, fingerprint
from rota.model.redact import HIDDEN
from rota.model.sanitize import MAX_CAUSES, MAX_MESSAGE_CHARS, describe_error


def caught(call: Callable[..., Any], *args: Any) -> BaseException:
    """What a call raises, with the traceback from there on."""
    try:
        call(*args)
    except BaseException as error:
        return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("it raised nothing")


def load(source: str, name: str = "shop.orders", file: str = "/srv/app/shop/orders.py") -> dict[str, Any]:
    """A module of an application, as if it lay in this file."""
    names: dict[str, Any] = {"__name__": name}
    text = textwrap.dedent(source)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names


ORDERS = """
    def check(n):
        if n < 0:
            raise ValueError(f"order {n} is not one")
        raise LookupError(f"no order {n} at {object()!r}")

    def ship(n):
        check(n)

    def bill(n):
        check(n)

    def dig(depth):
        if depth:
            dig(depth - 1)
        raise RuntimeError("deep enough")
"""


@pytest.mark.req("C04")
class TestFingerprint:
    @given(st.integers(min_value=0), st.integers(min_value=0))
    def test_numbers_and_addresses_in_the_message_do_not_matter(self, one: int, other: int) -> None:
        orders = load(ORDERS)
        assert fingerprint(caught(orders["ship"], one)) == fingerprint(caught(orders["ship"], other))

    def test_the_type_matters(self) -> None:
        orders = load(ORDERS)
        assert fingerprint(caught(orders["ship"], 1)) != fingerprint(caught(orders["ship"], -1))

    def test_the_functions_on_the_way_matter(self) -> None:
        orders = load(ORDERS)
        assert fingerprint(caught(orders["ship"], 1)) != fingerprint(caught(orders["bill"], 1))

    @given(st.integers(min_value=0, max_value=20))
    def test_lines_above_do_not_matter(self, lines: int) -> None:
        before, after = load(ORDERS), load("# a comment\n" * lines + textwrap.dedent(ORDERS))
        assert fingerprint(caught(before["ship"], 1)) == fingerprint(caught(after["ship"], 1))

    @given(st.integers(min_value=1, max_value=50))
    def test_the_depth_of_a_recursion_does_not_matter(self, depth: int) -> None:
        orders = load(ORDERS)
        assert fingerprint(caught(orders["dig"], depth)) == fingerprint(caught(orders["dig"], 3))

    def test_the_frames_of_libraries_do_not_matter(self) -> None:
        """Another release of a dependency, which fails in another function of its own, is the same error."""
        found = set()
        for inner in ("_send", "_transmit"):
            library = load(
                f"def {inner}():\n    raise OSError('away')\ndef post():\n    {inner}()\n",
                "courier.api",
                "/srv/venv/lib/python3.11/site-packages/courier/api.py",
            )
            orders = load("def ship(post):\n    post()\n")
            found.add(fingerprint(caught(orders["ship"], library["post"])))
        assert len(found) == 1
        assert None not in found

    def test_an_application_may_be_installed_itself(self) -> None:
        """Then its own package is the application, though it lies beside its dependencies."""
        installed = [
            load(
                f"def check():\n    raise LookupError\ndef {name}():\n    check()\n",
                "shop.orders",
                "/v/site-packages/shop/orders.py",
            )
            for name in ("ship", "bill")
        ]
        one, other = (fingerprint(caught(names[name])) for names, name in zip(installed, ("ship", "bill"), strict=True))
        assert one is not None
        assert one != other

    def test_an_explicit_cause_matters_and_what_was_being_handled_does_not(self) -> None:
        orders = load(
            """
            def wrap(kind, link):
                try:
                    raise kind
                except Exception as error:
                    if link:
                        raise RuntimeError("it failed") from error
                    raise RuntimeError("it failed")
            """
        )
        by_cause = {fingerprint(caught(orders["wrap"], kind, True)) for kind in (KeyError, OSError)}
        by_context = {fingerprint(caught(orders["wrap"], kind, False)) for kind in (KeyError, OSError)}
        assert (len(by_cause), len(by_context)) == (2, 1)

    def test_the_order_within_a_group_does_not_matter(self) -> None:
        orders = load("def fail(*members):\n    raise ExceptionGroup('several', members)\n")
        members = [KeyError("a"), OSError("b")]
        forwards, backwards = caught(orders["fail"], *members), caught(orders["fail"], *members[::-1])
        assert fingerprint(forwards) == fingerprint(backwards)
        assert fingerprint(caught(orders["fail"], KeyError("a"))) != fingerprint(forwards)

    def test_a_script_has_one_name_in_all_processes(self) -> None:
        alike = [load(ORDERS, name, "/srv/app/jobs.py") for name in ("__main__", "__mp_main__")]
        assert len({fingerprint(caught(names["ship"], 1)) for names in alike}) == 1

    def test_it_is_the_same_in_every_process_and_version(self) -> None:
        """Written down: a change of it would make new groups of all errors there are."""
        assert fingerprint(caught(load(ORDERS)["ship"], 1)) == "60d864bb496c9976"

    def test_without_a_frame_of_the_application_there_is_none(self) -> None:
        assert fingerprint(JobTimeout("Job exceeded timeout of 2s")) is None
        assert fingerprint(caught(json.loads, "nonsense")) is None
        assert fingerprint(ValueError()) is None

    @given(st.text(), st.text())
    def test_it_is_short_hexadecimal(self, name: str, message: str) -> None:
        kind = type(name.replace("\0", "") or "Odd", (Exception,), {})
        orders = load("def fail(error):\n    raise error\n")
        found = fingerprint(caught(orders["fail"], kind(message)))
        assert found is not None
        assert len(found) == LENGTH
        int(found, 16)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Odd(Exception):
    __module__ = 7  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        if name == "__cause__":
            raise RuntimeError("not that")
        return super().__getattribute__(name)


@pytest.mark.req("C04")
class TestDescribe:
    def test_it_says_where_it_came_from(self) -> None:
        orders = load(ORDERS)
        described = describe_error(caught(orders["ship"], 7))
        assert (described["type"], described["message"][:10]) == ("LookupError", "no order 7")
        assert "in check" in described["traceback"]
        assert "module" not in described
        assert len(described["fingerprint"]) == LENGTH

    def test_a_type_of_the_application_has_its_module(self) -> None:
        described = describe_error(Mute())
        assert (described["type"], described["module"]) == ("Mute", __name__)
        assert "could not be read: RuntimeError" in described["message"]

    def test_causes_are_a_bounded_list_that_ends(self) -> None:
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        assert [cause["message"] for cause in describe_error(first)["causes"]] == ["second"]
        error: BaseException = ValueError("0")
        for n in range(1, 50):
            error, cause = ValueError(str(n)), error
            error.__cause__ = cause
        assert len(describe_error(error)["causes"]) == MAX_CAUSES

    def test_a_group_has_its_members(self) -> None:
        described = describe_error(ExceptionGroup("several", [KeyError("a"), ExceptionGroup("more", [OSError("b")])]))
        assert [member["type"] for member in described["errors"]] == ["KeyError", "ExceptionGroup"]
        assert described["errors"][1]["errors"][0]["message"] == "b"

    def test_however_much_there_is_it_stays_small(self) -> None:
        def nest(depth: int) -> Exception:
            return ExceptionGroup("x" * 100_000, [nest(depth - 1) for _ in range(9)]) if depth else ValueError("y" * 100_000)

        error: BaseException = nest(4)
        for _ in range(9):
            error, cause = nest(2), error
            error.__cause__ = cause
        assert len(json.dumps(describe_error(error))) < 400_000

    def test_a_long_message_says_how_much_is_missing(self) -> None:
        message = describe_error(ValueError("z" * 200_000))["message"]
        assert message == "z" * MAX_MESSAGE_CHARS + f"… ({200_000 - MAX_MESSAGE_CHARS} more characters)"

    @pytest.mark.parametrize(
        "message", ["postgresql://shop:hunter2@db/shop", "password='hunter2'", "Authorization: Bearer hunter2222"]
    )
    def test_secrets_are_not_kept(self, message: str) -> None:
        try:
            try:
                raise KeyError(message)
            except KeyError as error:
                raise ExceptionGroup(message, [ValueError(message)]) from error
        except ExceptionGroup as error:
            described = describe_error(error)
        text = json.dumps({name: described[name] for name in ("message", "causes", "errors")})
        assert "hunter2" not in text.replace(json.dumps(described["causes"][0]["traceback"]), "")
        assert HIDDEN in described["message"]

    def test_what_another_process_has_described_is_left_as_it_is(self) -> None:
        described = {
            "type": "Boom",
            "message": "there",
            "fingerprint": "0123456789abcdef",
            "causes": [{"type": "A", "message": ""}],
        }
        failed = HandlerFailed(described)
        failed.__cause__ = ValueError("here")
        assert describe_error(failed) == described

    def test_an_exception_that_fights_back_is_described_all_the_same(self) -> None:
        assert describe_error(RecursionError("again"))["type"] == "RecursionError"
        assert describe_error(Odd("x"))["type"] == "Odd"
