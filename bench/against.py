"""Old against new: an earlier revision of Rota as a system of its own, and the ratios of the two, round by round."""

import io
import statistics
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.results import Results, Sample
from bench.system import OUT, ROOT, System
from bench.tables import Sheet, hundredths

# A median's interval from its order statistics: distribution-free, and honest about few rounds.
CONFIDENCE = 0.95
FIGURES = ("rate", "us", "p50_ms", "p95_ms", "ratio")


def earlier(revision: str, systems: list[System]) -> list[System]:
    """Return Rota's systems as they were at a revision."""
    tree = _check_out(revision)
    return [replace(system, name=_name(system.name, revision), title=f"{system.title}, {revision}", tree=tree)
            for system in systems if system.module == "rota"]  # fmt: skip


def ratios(results: Results, revision: str) -> Sheet:
    """Compare each figure with that of the revision in the same round: the median ratio, and its interval."""
    rows = []
    by_system: dict[tuple[str, str], list[Sample]] = {}
    for sample in results.samples:
        by_system.setdefault((sample.scenario, sample.system), []).append(sample)
    for (scenario, system), new in by_system.items():
        old = {sample.round: sample for sample in by_system.get((scenario, _name(system, revision)), [])}
        pairs = [(_figures(each), _figures(old[each.round])) for each in new if each.round in old]
        for figure in FIGURES:
            found = sorted(a[figure] / b[figure] for a, b in pairs if a.get(figure) and b.get(figure))
            if found:
                low, high = _interval(found)
                rows.append(
                    [scenario, system, figure, hundredths(statistics.median(found)), f"{low:.2f}–{high:.2f}", str(len(found))]
                )
    return Sheet(f"new ÷ {revision}, in pairs", ["scenario", "system", "figure", "median", "interval", "rounds"], rows)


def _figures(sample: Sample) -> dict[str, float]:
    figures = dict(sample.figures)
    if "postgres_us" in figures:
        figures["us"] = figures["postgres_us"] + figures["worker_us"]
    return figures


def _interval(ordered: list[float]) -> tuple[float, float]:
    """Return the narrowest pair of order statistics that holds the median with the confidence, or the extremes."""
    return next(_narrowing(ordered), (ordered[0], ordered[-1]))


def _narrowing(ordered: list[float]) -> Iterator[tuple[float, float]]:
    count = len(ordered)
    chances = [1.0]
    for n in range(count):
        chances.append(chances[-1] * (count - n) / (n + 1))
    for cut in range((count - 1) // 2, -1, -1):
        if 1 - 2 * sum(chances[: cut + 1]) / 2**count >= CONFIDENCE:
            yield ordered[cut], ordered[count - 1 - cut]


def _name(system: str, revision: str) -> str:
    return f"{system}_at_{revision}".replace("/", "_").lower()


def _check_out(revision: str) -> Path:
    """Unpack a revision's sources next to the results, once for each commit."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "--verify", f"{revision}^{{commit}}"], check=True, capture_output=True, text=True)
    tree = OUT / "trees" / commit.stdout.strip()
    if not tree.is_dir():
        packed = subprocess.run([*git, "archive", commit.stdout.strip(), "src", "bench"], check=True, capture_output=True)
        making = tree.with_name(tree.name + ".making")
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(making, filter="data")
        making.rename(tree)
    return tree
