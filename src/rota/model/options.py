"""Explain options and methods that Rota does not have, with its own word for what was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from rota.errors import UnknownOption, did_you_mean

Hint = Callable[[Any], str]  # from the value that was given


def _named(*rows: tuple[str, Any]) -> dict[str, Any]:
    return {name: meaning for names, meaning in rows for name in names.split()}


def _say(text: str) -> Hint:
    return lambda _: text


def _value_of(option: str) -> Hint:
    return lambda value: f"write {option}={value!r}"


def _with_retries(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return f"write max_attempts={value + 1}, which is the first attempt and {value} retries"
    return "write max_attempts=..., which counts the first attempt too"


def _timing(maker: str) -> Hint:
    return lambda value: f"write schedule={maker}({repr(value) if isinstance(value, int | float | str) else '...'})"


_BACKOFF = _say('write retry=Retry(base="5s", cap="5m", jitter="1s")')

# What other libraries call the options of `@app.task`, and how those are written here.
TASK_HINTS: Mapping[str, Hint] = _named(
    ("retries max_retries retry_count retry_limit", _with_retries),
    ("attempts max_tries tries", _value_of("max_attempts")),
    ("backoff retry_backoff retry_delay default_retry_delay min_backoff max_backoff retry_kwargs", _BACKOFF),
    ("autoretry_for retry_on retry_when throws", _say("every error is retried; a handler that returns Cancel(reason) is not")),
    ("cron crontab", _timing("cron")),
    ("every interval period periodic run_every", _timing("every")),
    ("tz timezone overlap misfire catch_up coalesce", _say("write schedule=cron(..., tz=..., overlap=..., misfire=...)")),
    ("concurrency max_concurrent max_instances concurrency_limit", _value_of("max_concurrency")),
    ("time_limit soft_time_limit timeout_s job_timeout max_runtime", _value_of("timeout")),
    ("rate_limit throttle", _value_of("rate")),
    ("queue_name routing_key", _value_of("queue")),
    ("lock queueing_lock singleton", _say("write max_concurrency=1, or concurrency_key=... for one job of each key at a time")),
    (
        "key unique unique_for unique_key",
        _say('a key belongs to each job: write using(key="...").enqueue(...); a second job with that key is not created'),
    ),
    ("delay countdown eta run_at", _say('a time belongs to each job: write using(delay="5m").enqueue(...)')),
    ("bind pass_context", _say("a handler whose first parameter is annotated with Context receives it")),
    ("ignore_result store_result store_results result_ttl keep_result", _say("results are kept for retention_days=...")),
    ("acks_late", _say("leave it out: a job whose worker dies always runs again")),
)

RECURRING_HINTS: Mapping[str, Hint] = {
    **TASK_HINTS,
    **_named(
        ("retries max_retries retry_count retry_limit attempts max_attempts max_tries tries", _BACKOFF),
        (
            "schedule cron crontab interval period",
            _say('write every="1h"; the handler may return when to run next'),
        ),
        ("on", _say("use @app.task(on=...): the rows of a recurring task run at their own times")),
    ),
}

# The same for `using(...)` and the options of `app.enqueue`.
JOB_HINTS: Mapping[str, Hint] = _named(
    ("countdown schedule_in delay_s defer_by", _value_of("delay")),
    ("eta at scheduled_at schedule_at run_after defer_until when", _say("write run_at=<a datetime with a time zone>")),
    ("retries max_retries", _with_retries),
    ("unique unique_key job_id task_id dedupe_key idempotency_key queueing_lock lock", _say('write key="..."')),
    ("ttl unique_for expires", _value_of("key_ttl")),
    ("timeout_s time_limit soft_time_limit", _value_of("timeout")),
    ("depends_on dependencies after parent parent_id", _say("write parents=[job, ...]")),
    ("connection session db transaction", _say("write conn=...")),
    ("queue_name routing_key", _value_of("queue")),
    ("max_concurrency concurrency rate concurrency_key", _say("a limit belongs to the task: write @app.task(max_concurrency=...)")),
)

# What other libraries call the methods of a task.
METHODS: Mapping[str, str] = _named(
    ("delay send perform_async perform_later push submit", "{task}.enqueue(...)"),
    ("defer", "{task}.enqueue(...), or await {task}.aenqueue(...) from an event loop"),
    ("kiq defer_async adelay enqueue_async", "await {task}.aenqueue(...)"),
    (
        "apply_async send_with_options perform_in perform_at schedule enqueue_in enqueue_at",
        '{task}.using(delay="5m", queue="mail").enqueue(...)',
    ),
    ("configure kicker options set with_options", "{task}.using(...)"),
    ("s si signature subtask message", "{task}.job(...), and app.enqueue_many([...]) to store it"),
    ("apply call_local fn func run", "{task}(...), which calls the handler itself"),
)
RECURRING_METHODS: Mapping[str, str] = {
    **dict.fromkeys([*METHODS, "enqueue", "aenqueue"], "{task}.ensure(...): it makes the row that runs again and again"),
    **_named(("apply call_local fn func run", "{task}(...), which calls the handler itself")),
}


def is_job_option(name: str) -> bool:
    """Tell whether `using()` has this option, or one that other libraries call so."""
    from rota.model.job import JobOptions  # which itself needs this module

    return name in JobOptions.__annotations__ or name in JOB_HINTS


def refuse_unknown(call: str, given: Mapping[str, Any], known: Iterable[str], hints: Mapping[str, Hint]) -> None:
    """Raise UnknownOption for options that do not exist."""
    known = list(known)
    sentences = [
        f"{call} has no option {name!r}: "
        + (hints[name](value) if name in hints else did_you_mean(name, known, f"it has {', '.join(known)}"))
        for name, value in given.items()
        if name not in known
    ]
    if sentences:
        raise UnknownOption("; ".join(sentences))


def no_attribute(owner: object, name: str, methods: Mapping[str, str]) -> NoReturn:
    """Raise the AttributeError of a class that has no such attribute, with what to call instead where that is known."""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in methods:
        task = vars(owner).get("__name__", "task")  # no attribute: a copy that is half made has none, and would ask again
        message += f": write {methods[name].format(task=task)}"
    raise AttributeError(message, name=name, obj=owner)
