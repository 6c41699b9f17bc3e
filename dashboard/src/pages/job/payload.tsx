/** A payload, its secrets hidden. */

import { useState } from "react";
import { Button, Icon, Json } from "@/ui";
import { conceal } from "./secrets";

export function PayloadView({ payload, label = "Payload" }: { payload: unknown; label?: string }) {
  const [shown, setShown] = useState(false);
  const { value, sealed, named } = conceal(payload, { named: shown });
  if (typeof payload === "object" && payload !== null && Object.keys(payload).length === 0) return <p className="text-muted">It is empty: the task takes no arguments, or has defaults for all of them.</p>;
  return (
    <div className="flex flex-col gap-2">
      {(sealed > 0 || named > 0) && (
        <p className="flex flex-wrap items-center gap-2 text-xs text-muted">
          <Icon name="lock" size={12} />
          {sealed > 0 && <span>{sealed === 1 ? "One secret is" : `${sealed} secrets are`} stored so that nobody can read {sealed === 1 ? "it" : "them"}.</span>}
          {named > 0 && (
            <Button small look="quiet" aria-pressed={shown} onClick={() => setShown(!shown)}>
              {shown ? "Hide" : "Show"} what looks like a secret
            </Button>
          )}
        </p>
      )}
      <Json value={value} label={label} open={3} />
    </div>
  );
}

/** What a job's handler has returned. */
export function ResultView({ result, state }: { result: unknown; state: string }) {
  if (result === null || result === undefined) {
    return <p className="py-4 text-muted">{state === "completed" ? "The handler returned nothing." : state === "running" ? "It is running: there is no result yet." : "There is no result: it has not completed."}</p>;
  }
  const cut = typeof result === "object" && "truncated" in result && result.truncated === true;
  return (
    <div className="flex flex-col gap-2">
      {cut && <p className="text-xs text-muted">It was too long to be kept: this is how it began.</p>}
      <PayloadView payload={result} label="Result" />
    </div>
  );
}
