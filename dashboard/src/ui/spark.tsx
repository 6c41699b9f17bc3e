/** Small pictures in a line of text. */

import { cx } from "@/lib/classes";
import { TONE_TEXT, type Tone } from "./badge";
import { Tooltip } from "./tooltip";

/** A line of values without axes; `label` says what it shows. */
export function Sparkline({ values, label, tone = "accent", width = 96, height = 22 }: { values: number[]; label: string; tone?: Tone; width?: number; height?: number }) {
  const most = Math.max(...values, 0);
  const step = values.length > 1 ? (width - 2) / (values.length - 1) : 0;
  const y = (value: number) => height - 2 - (most ? (value / most) * (height - 4) : 0);
  const points = values.map((value, index) => `${(1 + index * step).toFixed(1)},${y(value).toFixed(1)}`);
  return (
    <svg role="img" aria-label={label} viewBox={`0 0 ${width} ${height}`} width={width} height={height} className={cx("shrink-0", TONE_TEXT[tone])}>
      {points.length > 1 && <polygon points={`1,${height} ${points.join(" ")} ${width - 1},${height}`} fill="currentColor" opacity="0.12" />}
      <polyline points={points.join(" ")} fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinejoin="round" />
    </svg>
  );
}

export interface Mark {
  tone: Tone;
  /** What it is, when: shown on hover, and read out. */
  title: string;
  /** 0 to 1, of the full height; 1 if left out. */
  height?: number;
  href?: string;
}

/** A row of marks, the oldest first: the last firings of a schedule, or days. Bad ones are taller than others are wide: seen without colour too. */
export function Strip({ marks, label, slots = marks.length }: { marks: Mark[]; label: string; slots?: number }) {
  return (
    <span role="img" aria-label={`${label}: ${summary(marks)}`} className="inline-flex h-5 items-end gap-px align-middle">
      {Array.from({ length: Math.max(0, slots - marks.length) }, (_, index) => (
        <span key={`none-${index}`} className="h-1 w-1 rounded-full bg-active" />
      ))}
      {marks.map((mark, index) => (
        <Tooltip key={index} words={mark.title}>
          <span className={cx("w-1 rounded-[1px] bg-current", TONE_TEXT[mark.tone])} style={{ height: `${Math.max(15, (mark.height ?? (mark.tone === "ok" ? 0.6 : 1)) * 100)}%` }} />
        </Tooltip>
      ))}
    </span>
  );
}

function summary(marks: Mark[]): string {
  const counts = new Map<string, number>();
  for (const { tone } of marks) counts.set(tone, (counts.get(tone) ?? 0) + 1);
  const words: Record<Tone, string> = { ok: "fine", bad: "bad", warn: "not run", neutral: "without result", info: "queued", accent: "running" };
  return marks.length === 0 ? "none yet" : [...counts].map(([tone, count]) => `${count} ${words[tone as Tone]}`).join(", ");
}

/** A part of a whole as a bar, in a cell of a table. */
export function Meter({ value, of, label, tone = "accent" }: { value: number; of: number; label: string; tone?: Tone }) {
  return (
    <span role="meter" aria-label={label} aria-valuenow={value} aria-valuemin={0} aria-valuemax={of} className="inline-block h-1.5 w-16 overflow-hidden rounded-full bg-active align-middle">
      <span className={cx("block h-full bg-current", TONE_TEXT[tone])} style={{ width: `${of ? Math.min(100, (value / of) * 100) : 0}%` }} />
    </span>
  );
}
