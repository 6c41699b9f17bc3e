/** What changes from one value to another, line by line. */

import { cx } from "@/lib/classes";
import { toJson, visible } from "@/lib/json";

interface Line {
  kind: "same" | "gone" | "new";
  text: string;
}

const MOST = 2000; // lines that are compared; beyond that both are shown whole

/** The lines of two texts, those that both have once. */
export function diffLines(before: string, after: string): Line[] {
  const a = before.split("\n");
  const b = after.split("\n");
  if (a.length * b.length > MOST * MOST) return [...a.map((text): Line => ({ kind: "gone", text })), ...b.map((text): Line => ({ kind: "new", text }))];
  // The longest common run of lines, by lengths from the end.
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i]![j] = a[i] === b[j] ? lengths[i + 1]![j + 1]! + 1 : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!);
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: "same", text: a[i]! });
      i++;
      j++;
    } else if (i < a.length && (j === b.length || lengths[i + 1]![j]! >= lengths[i]![j + 1]!)) {
      lines.push({ kind: "gone", text: a[i++]! });
    } else {
      lines.push({ kind: "new", text: b[j++]! });
    }
  }
  return lines;
}

/** Two JSON values (or texts) compared. */
export function Diff({ before, after, label = "Changes" }: { before: unknown; after: unknown; label?: string }) {
  const text = (value: unknown) => (typeof value === "string" ? value : visible(toJson(value, 2)));
  const lines = diffLines(text(before), text(after));
  if (lines.every((line) => line.kind === "same")) return <p className="text-muted">Nothing changes.</p>;
  return (
    <div role="group" aria-label={label} tabIndex={0} className="max-h-80 overflow-auto rounded-md border bg-sunken py-1 font-mono text-xs leading-5">
      {lines.map((line, index) => (
        <div key={index} className={cx("flex px-2 whitespace-pre-wrap wrap-anywhere", line.kind === "gone" && "bg-bad-soft text-bad", line.kind === "new" && "bg-ok-soft text-ok")}>
          <span className="w-4 shrink-0 select-none">{{ same: " ", gone: "−", new: "+" }[line.kind]}</span>
          {line.kind !== "same" && <span className="sr-only">{line.kind === "gone" ? "removed: " : "added: "}</span>}
          <span>{line.text}</span>
        </div>
      ))}
    </div>
  );
}
