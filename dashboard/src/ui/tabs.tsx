/** Tabs; which one is open is for the page to keep, in the address. */

import { type ReactNode, useId, useRef } from "react";
import { cx } from "@/lib/classes";

export interface Tab {
  id: string;
  label: ReactNode;
  /** Beside the label, in grey. */
  count?: ReactNode;
  content: () => ReactNode;
}

/** `<Tabs label="Job" value={view.tab} onChange={(tab) => setView({ tab })} tabs={[…]} />`; one that is not there is the first. */
export function Tabs({ label, tabs, value, onChange }: { label: string; tabs: Tab[]; value: string; onChange: (id: string) => void }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const open = tabs.find((tab) => tab.id === value) ?? tabs[0]!;
  const onKeyDown = (event: React.KeyboardEvent) => {
    const here = tabs.indexOf(open);
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs.at(to % tabs.length)!;
    onChange(next.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${CSS.escape(next.id)}"]`)?.focus();
  };
  return (
    <div className="min-w-0">
      <div ref={list} role="tablist" aria-label={label} onKeyDown={onKeyDown} className="flex gap-1 overflow-x-auto border-b">
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            data-tab={tab.id}
            id={`${id}-${tab.id}`}
            aria-selected={tab === open}
            aria-controls={`${id}-panel`}
            tabIndex={tab === open ? 0 : -1}
            onClick={() => onChange(tab.id)}
            className={cx(
              "-mb-px flex items-center gap-1.5 border-b-2 px-2.5 py-2 text-sm whitespace-nowrap focus-visible:-outline-offset-2",
              tab === open ? "border-accent font-medium text-text" : "border-transparent text-muted hover:text-text",
            )}
          >
            {tab.label}
            {tab.count !== undefined && tab.count !== null && <span className="text-xs text-faint">{tab.count}</span>}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${open.id}`} className="pt-3">
        {open.content()}
      </div>
    </div>
  );
}
