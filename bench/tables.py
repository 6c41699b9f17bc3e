"""The figures of a run as tables, for the terminal and for the documentation."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.results import Figures, Results
from bench.scenarios import SCENARIOS
from bench.systems import BY_NAME
from bench.targets import TARGETS


@dataclass(frozen=True)
class Column:
    """A figure, its heading and how it is written."""

    figure: str
    heading: str
    write: Callable[[float], str]


def whole(value: float) -> str:
    """Write a rate."""
    return f"{value:,.0f}"


def tenths(value: float) -> str:
    """Write a time or an amount."""
    return f"{value:,.1f}"


def hundredths(value: float) -> str:
    """Write a ratio."""
    return f"{value:.2f}"


DRAIN = [
    Column("rate", "jobs/s", whole),
    Column("postgres_us", "PostgreSQL, CPU µs a job", tenths),
    Column("worker_us", "workers, CPU µs a job", tenths),
    Column("rss_mb", "worker, peak MB", whole),
]
PINNED = [
    Column("first", "first tenth, jobs/s", whole),
    Column("last", "last tenth, jobs/s", whole),
    Column("ratio", "last ÷ first", hundredths),
    Column("jobs", "jobs", whole),
]
LOOKS = [
    Column("p50_ms", "p50 ms", tenths),
    Column("p95_ms", "p95 ms", tenths),
    Column("slowest_ms", "slowest, ms", tenths),
]
AGAINST_BARE = [
    Column("bare", "bare, requests/s", whole),
    Column("rate", "Rota, requests/s", whole),
    Column("ratio", "ratio", hundredths),
]
COLUMNS: dict[str, list[Column]] = {
    "drain1": DRAIN,
    "drain2": DRAIN,
    "single": [Column("rate", "jobs/s", whole)],
    "bulk": [Column("rate", "jobs/s", whole)],
    "pickup": [
        Column("p50_ms", "p50 ms", hundredths),
        Column("p95_ms", "p95 ms", hundredths),
        Column("from_call_p50_ms", "p50 ms from the call", hundredths),
    ],
    "pinned-large": PINNED,
    "pinned-small": PINNED,
    "future": [
        Column("without", "without, jobs/s", whole),
        Column("beside", "beside them, jobs/s", whole),
        Column("ratio", "ratio", hundredths),
        Column("idle_claim_ms", "idle claim, ms", hundredths),
    ],
    "history": [
        Column("without", "without, jobs/s", whole),
        Column("above", "above them, jobs/s", whole),
        Column("ratio", "ratio", hundredths),
    ],
    "unknown": [
        Column("without", "without, jobs/s", whole),
        Column("nobody_first", "nobody knows it, first drain, jobs/s", whole),
        Column("nobody", "next, jobs/s", whole),
        Column("ratio", "ratio", hundredths),
        Column("another_first", "another worker knows it, first drain, jobs/s", whole),
        Column("another", "next, jobs/s", whole),
        Column("ratio_another", "ratio", hundredths),
    ],
    "writers": [
        Column("notified", "with NOTIFY, jobs/s", whole),
        Column("silent", "without, jobs/s", whole),
        Column("ratio", "ratio", hundredths),
    ],
    "recurring-idle": [
        Column("fire_ms", "1,000 due fired, ms", tenths),
        Column("idle_poll_ms", "none due, ms a look", hundredths),
    ],
    "recurring-fire": [Column("rate", "rows/s", whole), *DRAIN[1:]],
    "recurring-flood": [
        Column("rate", "rows/s", whole),
        Column("longest_ms", "longest statement, ms", whole),
        Column("p50_ms", "pick-up in another queue, p50 ms", tenths),
        Column("p99_ms", "p99 ms", tenths),
    ],
    "unlimited": [
        Column("without", "without, jobs/s", whole),
        Column("beside", "beside, jobs/s", whole),
        Column("ratio", "ratio", hundredths),
    ],
    "runs": [
        Column("p50_ms", "p50 ms", tenths),
        Column("p95_ms", "p95 ms", tenths),
        Column("slowest_ms", "slowest, ms", tenths),
        Column("errors_ms", "error groups, ms", tenths),
    ],
    "lines": [Column("rate", "lines/s", whole)],
    "saying": [
        Column("rate", "jobs/s", whole),
        Column("ratio", "÷ without a line", hundredths),
        Column("noop_ratio", "no-op jobs ÷ without a line", hundredths),
    ],
    "log-search": LOOKS,
    "job-lists": LOOKS,
    "pages": LOOKS,
    "typing": [
        Column("rate", "jobs/s meanwhile", whole),
        Column("keys", "keys", whole),
        Column("slowest_ms", "slowest key, ms", whole),
    ],
    "post-jobs": AGAINST_BARE,
    "http-jobs": AGAINST_BARE,
    "streams": [
        Column("unwatched_us", "unwatched, CPU µs a job", tenths),
        Column("watched_us", "watched, CPU µs a job", tenths),
        Column("ratio", "ratio", hundredths),
    ],
    "prune": [
        Column("without", "without, jobs/s", whole),
        Column("beside", "while pruning, jobs/s", whole),
        Column("ratio", "ratio", hundredths),
        Column("pruned_rate", "pruned, runs/s", whole),
    ],
    "lateness": [Column("p50_ms", "p50 ms", tenths), Column("p99_ms", "p99 ms", tenths)],
}


@dataclass(frozen=True)
class Sheet:
    """One table before it is drawn."""

    title: str
    headings: list[str]
    rows: list[list[str]]


def sheets(results: Results) -> list[Sheet]:
    """One table per scenario that was measured."""
    made = []
    for scenario in SCENARIOS:
        medians = results.medians(scenario.name)
        if medians:
            columns = COLUMNS[scenario.name]
            rows = [[_title(system), *_cells(columns, figures)] for system, figures in medians.items()]
            made.append(Sheet(scenario.title, ["", *(column.heading for column in columns)], rows))
    return made


def verdicts(results: Results) -> Sheet:
    """The promises, kept or missed."""
    rows = []
    for target in TARGETS:
        value = target.value(results)
        verdict = "not measured" if value is None else "kept" if target.met(value) else "missed"
        bound = f"{'≤' if target.at_most else '≥'} {target.bound:g}"
        rows.append([target.text, bound, "" if value is None else hundredths(value), verdict])
    return Sheet("promises", ["", "bound", "measured", ""], rows)


def show(sheet: Sheet) -> None:
    """Print a table to stdout, wide enough for its rows where there is no terminal to fit into."""
    console = Console()
    if not console.is_terminal:
        console.width = 140
    table = Table(title=sheet.title, title_justify="left", header_style="bold")
    for number, heading in enumerate(sheet.headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in sheet.rows:
        style = {"kept": "green", "missed": "bold red"}.get(row[-1])
        table.add_row(*row, style=style)
    console.print(table)


def as_markdown(sheet: Sheet) -> str:
    """Write a table for a document."""
    lines = [sheet.headings, ["---", *["---:"] * (len(sheet.headings) - 1)], *sheet.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(columns: list[Column], figures: Figures) -> list[str]:
    return [column.write(figures[column.figure]) if column.figure in figures else "" for column in columns]


def _title(name: str) -> str:
    return BY_NAME[name].title if name in BY_NAME else name
