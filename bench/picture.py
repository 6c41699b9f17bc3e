"""The picture of a run: bars of the drains, drawn as SVG that follows the reader's light or dark theme."""

from html import escape

from bench.results import Results
from bench.systems import BY_NAME

WIDTH = 820
LABEL = 300
BAR = 14
GAP = 4
ROW = 2 * BAR + GAP + 18
TOP = 64
STEPS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)

STYLE = """
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #334155 }
.title { font-size: 16px; font-weight: 600 }
.note { fill: #64748b; font-size: 12px }
.figure { font-variant-numeric: tabular-nums }
.grid { stroke: #e2e8f0 }
.one { fill: #94a3b8 } .two { fill: #cbd5e1 }
.ours .one { fill: #2563eb } .ours .two { fill: #93c5fd }
@media (prefers-color-scheme: dark) {
  text { fill: #e2e8f0 } .note { fill: #94a3b8 } .grid { stroke: #334155 }
  .one { fill: #64748b } .two { fill: #475569 }
  .ours .one { fill: #3b82f6 } .ours .two { fill: #1e40af }
}
"""


def draw_drains(results: Results) -> str:
    """Draw jobs per second with one and with two processes, fastest first."""
    one = {system: figures["rate"] for system, figures in results.medians("drain1").items()}
    two = {system: figures["rate"] for system, figures in results.medians("drain2").items()}
    order = sorted(one, key=lambda system: -one[system])
    height = TOP + ROW * len(order) + 34
    most = max([*one.values(), *two.values()], default=1.0)
    scale = (WIDTH - LABEL - 90) / most
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Jobs per second by system">',
        f"<style>{STYLE}</style>",
        '<text class="title" x="0" y="20">Jobs per second, no-op jobs, full durability</text>',
        f'<text class="note" x="0" y="40">PostgreSQL {escape(results.postgres)} · {escape(results.machine)} · '
        f"medians of {results.rounds} interleaved rounds · upper bar: 1 process, lower: 2</text>",
        *_grid(most, scale, height),
    ]
    for number, system in enumerate(order):
        parts += _row(system, TOP + ROW * number, one[system], two.get(system), scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(most: float, scale: float, height: int) -> list[str]:
    step = next((step for step in STEPS if most / step <= 8), STEPS[-1])
    parts = []
    for value in range(0, int(most) + step, step):
        x = LABEL + value * scale
        if x <= WIDTH - 60:
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 30}"/>')
            parts.append(f'<text class="note" x="{x:.1f}" y="{height - 12}" text-anchor="middle">{value:,}</text>')
    return parts


def _row(system: str, y: int, one: float, two: float | None, scale: float) -> list[str]:
    title = BY_NAME[system].title if system in BY_NAME else system
    ours = ' class="ours"' if system.startswith("rota") else ""
    parts = [f"<g{ours}>", f'<text x="{LABEL - 12}" y="{y + BAR + 6}" text-anchor="end">{escape(title)}</text>']
    for kind, rate, top in (("one", one, y), ("two", two, y + BAR + GAP)):
        if rate is not None:
            width = max(rate * scale, 1.0)
            parts.append(f'<rect class="{kind}" x="{LABEL}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2"/>')
            parts.append(f'<text class="figure" x="{LABEL + width + 6:.1f}" y="{top + BAR - 3}">{rate:,.0f}</text>')
    return [*parts, "</g>"]
