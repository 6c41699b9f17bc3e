/** Charts over time. What draws them is loaded when the first one is shown. */

import { Suspense, lazy } from "react";
import type { Tone } from "./badge";

const Canvas = lazy(() => import("./chart-canvas"));

export interface Series {
  label: string;
  values: (number | null)[];
  tone: Tone;
  /** Bars on top of each other, or lines. */
  kind?: "line" | "bars";
  dashed?: boolean;
}

export interface ChartProps {
  /** What it shows, for who cannot see it. */
  label: string;
  /** Instants of the values, the oldest first: ISO texts or milliseconds. */
  times: (string | number)[];
  series: Series[];
  /** Beside the numbers: "jobs/min", "ms"; "s" is shown as a duration. */
  unit?: string;
  height?: number;
  /** The last value is not complete yet: the legend shows the one before it. */
  unfinished?: boolean;
  /** What stands in the chart's place when there is nothing to draw. */
  empty?: string;
  /** Marked in the chart: the first and the last value. */
  range?: Range | null;
  /** Called with the values that were marked with the mouse; without it, nothing can be marked. */
  onSelect?: (range: Range) => void;
}

/** Places of the first and the last of some values. */
export type Range = readonly [first: number, last: number];

/** `<Chart label="Throughput" times={…} series={[{ label: "completed", tone: "ok", values, kind: "bars" }]} unit="jobs/min" />` */
export function Chart(props: ChartProps) {
  const { height = 160, label, series, times, unfinished, empty } = props;
  const nothing = empty !== undefined && series.every((each) => each.values.every((value) => !value));
  const last = times.length - (unfinished ? 2 : 1);
  return (
    <figure className="min-w-0" aria-label={label}>
      <figcaption className="sr-only">
        {label}: {nothing ? empty : series.map((each) => `${each.label} last ${each.values[last] ?? "none"}`).join(", ")}
      </figcaption>
      {nothing ? (
        <div className="grid place-items-center rounded-md border border-dashed text-muted" style={{ height: height + 24 }}>
          {empty}
        </div>
      ) : (
        <Suspense fallback={<div className="animate-skeleton rounded-md bg-sunken" style={{ height: height + 24 }} />}>
          <Canvas {...props} height={height} />
        </Suspense>
      )}
    </figure>
  );
}
