"""The figures of a run in the documentation: tables between two marks, and the picture."""

from pathlib import Path

from bench.picture import draw_drains
from bench.results import Results
from bench.system import ROOT
from bench.tables import as_markdown, sheets, verdicts

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "images" / "drains.svg"
BEGIN = "<!-- figures: written by `python -m bench publish` -->"
END = "<!-- end of figures -->"


def publish(results: Results) -> list[Path]:
    """Write the tables and the picture of a run into the documentation."""
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw_drains(results))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{figures(results)}\n{END}{after}")
    return [PAGE, PICTURE]


def figures(results: Results) -> str:
    """Write all tables of a run."""
    said = (
        f"Measured on {results.at[:10]} with PostgreSQL {results.postgres} and Python {results.python} on "
        f"{results.machine}; medians of {results.rounds} interleaved rounds.\n\n"
    )
    return said + "".join(
        f"### {sheet.title[0].upper()}{sheet.title[1:]}\n\n{as_markdown(sheet)}\n\n"
        for sheet in (verdicts(results), *sheets(results))
    )
