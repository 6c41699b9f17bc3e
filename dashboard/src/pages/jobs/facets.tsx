/** Facets beside the list: how many there are of each state, task and queue; a click narrows the search by it. */

import { type ReactNode, useRef, useState } from "react";
import type { AnswerOf } from "@/api";
import { cx } from "@/lib/classes";
import { Count, Icon, stateLook } from "@/ui";
import { STATES, valuesOf, withValues } from "./query";

type Facets = AnswerOf<"get", "/api/admin/jobs/facets">;
type Capped = { count: number; capped: boolean; estimated: boolean };

const SHOWN = 8;
const TONES: Record<string, string> = { neutral: "text-muted", ok: "text-ok", warn: "text-warn", bad: "text-bad", info: "text-info", accent: "text-accent" };

export function FacetList({ facets, q, onChange }: { facets: Facets | undefined; q: string; onChange: (q: string) => void }) {
  const states = valuesOf(q, "state");
  const toggleState = (state: string) => onChange(withValues(q, "state", states.includes(state) ? states.filter((each) => each !== state) : [...states, state]));
  return (
    <div className="flex flex-col gap-5">
      <Group title="State">
        {STATES.map((state) => {
          const { icon, tone } = stateLook(state);
          return (
            <Facet key={state} name="state" on={states.includes(state)} count={facets?.states[state]} onClick={() => toggleState(state)}>
              <Icon name={icon} size={14} className={TONES[tone]} />
              {state}
            </Facet>
          );
        })}
      </Group>
      <Names title="Task" name="task" all={facets?.tasks} q={q} onChange={onChange} />
      <Names title="Queue" name="queue" all={facets?.queues} q={q} onChange={onChange} />
      {facets && !facets.complete && <p className="text-xs text-faint">Tasks and queues are counted among the newest jobs.</p>}
    </div>
  );
}

function Names({ title, name, all, q, onChange }: { title: string; name: string; all: { value: string; count: Capped }[] | undefined; q: string; onChange: (q: string) => void }) {
  const [whole, setWhole] = useState(false);
  const [chosen] = valuesOf(q, name);
  const found = useOrder(all ?? [], q);
  const listed = chosen !== undefined && !found.some((each) => each.value === chosen) ? [{ value: chosen, count: undefined }, ...found] : found;
  if (listed.length === 0) return null;
  return (
    <Group title={title}>
      {listed.slice(0, whole ? undefined : SHOWN).map(({ value, count }) => (
        <Facet key={value} name={name} on={value === chosen} count={count} onClick={() => onChange(withValues(q, name, value === chosen ? [] : [value]))}>
          <span className="truncate" title={value}>
            {value}
          </span>
        </Facet>
      ))}
      {listed.length > SHOWN && (
        <li>
          <button type="button" onClick={() => setWhole(!whole)} className="px-2 py-0.5 text-xs text-accent hover:underline">
            {whole ? "Fewer" : `${listed.length - SHOWN} more`}
          </button>
        </li>
      )}
    </Group>
  );
}

/** The values in the order in which they were first shown for this search: their counts change, and they stay where they are. */
function useOrder<T extends { value: string }>(all: T[], q: string): T[] {
  const known = useRef({ q, values: [] as string[] });
  if (known.current.q !== q) known.current = { q, values: [] };
  const places = new Map(known.current.values.map((value, place) => [value, place]));
  const ordered = all.toSorted((a, b) => (places.get(a.value) ?? all.length) - (places.get(b.value) ?? all.length));
  known.current.values = ordered.map((each) => each.value);
  return ordered;
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <h2 className="mb-1 px-2 text-xs font-medium text-muted">{title}</h2>
      <ul className="flex flex-col">{children}</ul>
    </section>
  );
}

function Facet({ name, on, count, onClick, children }: { name: string; on: boolean; count: Capped | undefined; onClick: () => void; children: ReactNode }) {
  return (
    <li>
      <button
        type="button"
        aria-pressed={on}
        data-facet={name}
        onClick={onClick}
        className={cx("flex h-7 w-full items-center gap-2 rounded-sm px-2 text-left", on ? "bg-accent-soft font-medium text-accent" : "hover:bg-hover")}
      >
        <span className="flex min-w-0 grow items-center gap-1.5">{children}</span>{" "}
        {count && count.count === 0 && count.capped ? (
          <span className="text-xs text-faint" title="Not counted: none among the newest jobs, and there are too many to search them all">
            –
          </span>
        ) : (
          count && <Count value={count.count} capped={count.capped} estimated={count.estimated} className={cx("text-xs", count.count === 0 && !on ? "text-faint" : on ? "" : "text-muted")} />
        )}
      </button>
    </li>
  );
}
