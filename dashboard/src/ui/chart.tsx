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
  /** When somebody has marked a span with the mouse. */
  onSelect?: (from: Date, to: Date) => void;
}

/** `<Chart label="Throughput" times={…} series={[{ label: "completed", tone: "ok", values, kind: "bars" }]} unit="jobs/min" />` */
export function Chart(props: ChartProps) {
  const { height = 160, label, series } = props;
  return (
    <figure className="min-w-0" aria-label={label}>
      <figcaption className="sr-only">
        {label}: {series.map((each) => `${each.label} last ${each.values.findLast((value) => value !== null) ?? "unknown"}`).join(", ")}
      </figcaption>
      <Suspense fallback={<div className="animate-skeleton rounded-md bg-sunken" style={{ height: height + 24 }} />}>
        <Canvas {...props} height={height} />
      </Suspense>
    </figure>
  );
}
