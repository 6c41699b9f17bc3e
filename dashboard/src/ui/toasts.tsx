/** Where short messages are shown. */

import { useSyncExternalStore } from "react";
import { cx } from "@/lib/classes";
import { dismiss, onToasts, toasts } from "@/lib/toasts";
import { Button, IconButton } from "./button";
import { Icon } from "./icons";

export function Toasts() {
  const shown = useSyncExternalStore(onToasts, toasts);
  return (
    <div aria-live="polite" role="status" className="pointer-events-none fixed inset-x-3 bottom-3 z-50 flex flex-col items-center gap-2 sm:inset-x-auto sm:right-4 sm:items-end">
      {shown.map((each) => (
        <div key={each.id} className="pointer-events-auto flex max-w-md items-start gap-2 rounded-md border bg-raised py-2 pr-2 pl-3 shadow-pop animate-appear">
          <span className={cx("mt-0.5", each.kind === "bad" ? "text-bad" : each.kind === "ok" ? "text-ok" : "text-info")}>
            <Icon name={each.kind === "bad" ? "warning" : each.kind === "ok" ? "check" : "info"} />
          </span>
          <p className="min-w-0 wrap-anywhere">{each.words}</p>
          {each.action && (
            <Button
              small
              onClick={() => {
                each.action?.run();
                dismiss(each.id);
              }}
            >
              {each.action.label}
            </Button>
          )}
          <IconButton small icon="cross" label="Dismiss" onClick={() => dismiss(each.id)} />
        </div>
      ))}
    </div>
  );
}
