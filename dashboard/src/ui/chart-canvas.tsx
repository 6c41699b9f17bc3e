/** A chart on a canvas, by uPlot. */

import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { cx } from "@/lib/classes";
import { durationWords, local, shortCount } from "@/lib/format";
import { onTheme } from "@/lib/theme";
import { TONE_TEXT, type Tone } from "./badge";
import type { ChartProps, Range } from "./chart";

const VARIABLES: Record<Tone, string> = { neutral: "faint", ok: "ok", warn: "warn", bad: "bad", info: "info", accent: "accent" };

export default function ChartCanvas({ times, series, unit, height = 160, unfinished, range, onSelect }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [themes, setThemes] = useState(0);
  const select = useRef(onSelect);
  select.current = onSelect;
  const selects = onSelect !== undefined;
  const marked = useRef(range);
  marked.current = range;
  const data = useMemo(() => {
    const xs = times.map((time) => new Date(time).getTime() / 1000);
    return [xs, ...stacked(series)] as uPlot.AlignedData;
  }, [times, series]);
  const shape = series.map((each) => `${each.label}/${each.tone}/${each.kind}/${each.dashed}`).join("|");

  useEffect(() => onTheme(() => setThemes((count) => count + 1)), []);
  useEffect(() => {
    const element = place.current!;
    const color = colorsOf(element);
    const made = new uPlot(
      {
        width: element.clientWidth || 600,
        height,
        legend: { show: false },
        padding: [8, 8, 0, 0],
        cursor: { y: false, points: { size: 6 }, drag: { x: selects, y: false, setScale: false } },
        select: { show: selects, left: 0, top: 0, width: 0, height: 0 },
        scales: {
          // Half a slot more at both ends: else the first and the last bar are cut in half.
          x: {
            range: (chart, low, high) => {
              const half = (high - low) / Math.max(1, chart.data[0].length - 1) / 2;
              return [low - half, high + half];
            },
          },
          y: { range: (_, _low, high) => [0, Math.max(high * 1.1, 1e-9)] },
        },
        axes: [
          { stroke: color("faint"), grid: { show: false }, ticks: { show: false }, font: font(element), values: (_, xs) => labels(xs), size: 24, space: 70 },
          { stroke: color("faint"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: font(element), incrs: unit ? undefined : WHOLE, values: (_, ys) => ys.map((y) => amount(y, unit)), size: 52, space: 34 },
        ],
        series: [
          {},
          ...barsFirst(series).map((each) => ({
            label: each.label,
            stroke: color(VARIABLES[each.tone]),
            width: each.kind === "bars" ? 0 : 1.5,
            fill: each.kind === "bars" ? color(VARIABLES[each.tone], 62) : undefined,
            dash: each.dashed ? [4, 4] : undefined,
            paths: each.kind === "bars" ? uPlot.paths.bars!({ size: [0.75, 40] }) : undefined,
            points: { show: false },
          })),
        ],
        hooks: {
          drawClear: [(chart) => marked.current && shade(chart, marked.current, color("accent", 18))],
          setCursor: [(chart) => setAt(chart.cursor.idx ?? null)],
          setSelect: [
            (chart) => {
              const { left, width } = chart.select;
              if (width > 4) select.current?.(inOrder(chart.posToIdx(left), chart.posToIdx(left + width)));
              chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      data,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // The data comes by setData: a chart is made anew when its shape or its colours change.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [shape, height, unit, themes, selects]);
  useEffect(() => plot.current?.setData(data), [data]);
  useEffect(() => plot.current?.redraw(false), [range]);

  const last = times.length - 1;
  const shown = at ?? (unfinished && last > 0 ? last - 1 : last);
  return (
    <div>
      <div ref={place} className="w-full" style={{ height }} />
      <div className="flex min-h-6 flex-wrap items-center gap-x-4 gap-y-1 pl-13 text-xs text-muted">
        {series.map((each) => (
          <span key={each.label} className="inline-flex items-center gap-1.5">
            <span className={cx("inline-block w-2.5 bg-current", each.kind === "bars" ? "h-2.5 rounded-[2px]" : "h-0.5", TONE_TEXT[each.tone])} />
            {each.label} <span className="text-text">{each.values[shown] === null || each.values[shown] === undefined ? "–" : amount(each.values[shown], unit)}</span>
          </span>
        ))}
        {times[shown] !== undefined && <span className="ml-auto">{when(times)(times[shown])}{unfinished && shown === last && ", so far"}</span>}
      </div>
    </div>
  );
}

const WHOLE = [1, 2, 5].flatMap((step) => Array.from({ length: 10 }, (_, power) => step * 10 ** power)).toSorted((a, b) => a - b); // counts have no halves

function inOrder(a: number, b: number): Range {
  return a < b ? [a, b] : [b, a];
}

/** A ground behind the values that are marked, as wide as their slots. */
function shade(chart: uPlot, [first, last]: Range, color: string): void {
  const xs = chart.data[0];
  if (xs[first] === undefined || xs[last] === undefined) return;
  const half = xs.length > 1 ? (xs[1]! - xs[0]!) / 2 : 0;
  const left = chart.valToPos(xs[first] - half, "x", true);
  const { top, height } = chart.bbox;
  chart.ctx.save();
  chart.ctx.fillStyle = color;
  chart.ctx.fillRect(left, top, chart.valToPos(xs[last] + half, "x", true) - left, height);
  chart.ctx.restore();
}

/** Bars are drawn from the top of the pile to its bottom, lines over them. */
function barsFirst<T extends { kind?: string }>(series: T[]): T[] {
  return [...series.filter((each) => each.kind === "bars").toReversed(), ...series.filter((each) => each.kind !== "bars")];
}

function stacked(series: ChartProps["series"]): (number | null)[][] {
  const bars = series.filter((each) => each.kind === "bars");
  const sums = bars.map((_, upTo) => bars[0]!.values.map((_, index) => bars.slice(0, upTo + 1).reduce((sum, each) => sum + (each.values[index] ?? 0), 0)));
  return [...sums.toReversed(), ...series.filter((each) => each.kind !== "bars").map((each) => each.values)];
}

function amount(value: number, unit?: string): string {
  if (unit === "s") return durationWords(value);
  const text = value < 10 && value % 1 ? value.toFixed(value < 1 ? 2 : 1) : shortCount(Math.round(value));
  return unit === "ms" ? `${text} ms` : text;
}

function labels(xs: number[]): string[] {
  const span = (xs.at(-1) ?? 0) - (xs[0] ?? 0);
  return xs.map((x) => (span > 2 * 86_400 ? local(x * 1000, undefined, "date").slice(5) : local(x * 1000, undefined, span < 300 ? "clock" : "minutes")));
}

/** A point's time, as exactly as the chart's span asks for. */
function when(times: (string | number)[]): (at: string | number) => string {
  const span = new Date(times.at(-1) ?? 0).getTime() - new Date(times[0] ?? 0).getTime();
  if (span <= 300_000) return (at) => local(at, undefined, "clock");
  return span < 86_400_000 ? (at) => local(at, undefined, "minutes") : (at) => local(at).slice(0, -3);
}

function font(element: HTMLElement): string {
  return `11px ${getComputedStyle(element).fontFamily}`;
}

/** Colours as the browser resolves them now: a canvas knows no variables. */
function colorsOf(element: HTMLElement): (name: string, percent?: number) => string {
  element.style.transition = "none"; // or what is read would be the colour that it comes from
  return (name, percent = 100) => {
    element.style.color = percent === 100 ? `var(--color-${name})` : `color-mix(in srgb, var(--color-${name}) ${percent}%, var(--color-page))`;
    const found = getComputedStyle(element).color;
    element.style.color = "";
    return found;
  };
}
