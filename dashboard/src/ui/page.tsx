/** The frame of every page: its title, what can be done, and the rest below. */

import { type ReactNode, useEffect } from "react";

/** `<Page title="Jobs" actions={<Button…/>}>…</Page>`; the title is the window's too. `lead` is a line below it, `above` one above it: the way back. */
export function Page({ title, heading, above, lead, actions, children }: { title: string; heading?: ReactNode; above?: ReactNode; lead?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Rota`;
  }, [title]);
  return (
    <div className="mx-auto flex max-w-[100rem] flex-col gap-4 px-4 py-4 sm:px-6">
      <header className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="min-w-0">
          {above && <div className="text-xs text-muted">{above}</div>}
          <h1 className="text-xl font-semibold tracking-tight wrap-anywhere">{heading ?? title}</h1>
          {lead && <p className="text-muted">{lead}</p>}
        </div>
        {actions && <div className="ml-auto flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
