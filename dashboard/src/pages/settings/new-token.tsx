/** The dialog that makes a token, and shows it the one time that it is seen. */

import { useState } from "react";
import { type AnswerOf, useAct } from "@/api";
import { useMe } from "@/app/session";
import { absoluteUrl } from "@/lib/root";
import { Button, Checkbox, Copy, Dialog, ErrorPanel, Input, Notice, Select, Snippet } from "@/ui";

type Made = AnswerOf<"post", "/auth/tokens">;

const DAYS = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "a year" },
  { value: "", label: "until it is revoked" },
];

/** `forOthers`: whose it is can be chosen, as far as one may. */
export function NewToken({ forOthers, onClose }: { forOthers: boolean; onClose: () => void }) {
  const me = useMe();
  const [name, setName] = useState("");
  const [owner, setOwner] = useState(me.email);
  const [days, setDays] = useState("90");
  const [all, setAll] = useState(false);
  const [scopes, setScopes] = useState<string[]>([]);
  const [tried, setTried] = useState(false);
  const [made, setMade] = useState<Made | null>(null);
  const own = useAct("post", "/auth/tokens", { toastErrors: false });
  const others = useAct("post", "/api/admin/tokens", { toastErrors: false });
  const mine = !forOthers || owner.trim() === me.email;
  const sent = mine ? own : others;
  if (made) return <Once made={made} onClose={onClose} />;
  const wrong = {
    name: name.trim() === "" ? "What is it for? Give it a name." : undefined,
    owner: forOthers && owner.trim() === "" ? "Whose is it? Write their address." : undefined,
    scopes: !all && scopes.length === 0 ? "Choose what it is for, or all." : undefined,
  };
  const submit = () => {
    setTried(true);
    if (Object.values(wrong).some(Boolean) || sent.isPending) return;
    const body = { name: name.trim(), scopes: all ? null : scopes, days: days ? Number(days) : null };
    if (mine) own.mutate({ body }, { onSuccess: setMade });
    else others.mutate({ body: { ...body, owner: owner.trim() } }, { onSuccess: setMade });
  };
  const forget = () => void (sent.error && sent.reset());
  const errorOf = (field: "name" | "owner" | "scopes") => sent.error?.field(field) ?? (tried ? wrong[field] : undefined);
  const known = (["name", "owner", "scopes", "days"] as const).some((field) => sent.error?.field(field));
  return (
    <Dialog
      title="New token"
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op={mine ? undefined : "tokens.change"} busy={sent.isPending}>
            Make it
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <Input label="Name" required value={name} onChange={(text) => (setName(text), forget())} error={errorOf("name")} maxLength={200} placeholder="deploy" data-autofocus />
        {forOthers && <Input label="Owner" required value={owner} onChange={(text) => (setOwner(text), forget())} error={errorOf("owner")} hint="It does never more than its owner may at that moment." />}
        <Select label="Good for" value={days} options={DAYS} onChange={setDays} error={sent.error?.field("days")} />
        <fieldset className="flex flex-col gap-2">
          <legend className="pb-1 text-xs font-medium">What it is for</legend>
          <Checkbox label={`All that ${mine ? "you" : "its owner"} may`} checked={all} onChange={setAll} />
          {!all && (
            <div className="grid gap-1.5 border-l-2 pl-3 sm:grid-cols-2">
              {["own.read", "own.change", ...me.may].map((scope) => (
                <Checkbox key={scope} label={<code className="font-mono text-xs">{scope}</code>} checked={scopes.includes(scope)} onChange={(on) => (setScopes(on ? [...scopes, scope] : scopes.filter((each) => each !== scope)), forget())} />
              ))}
            </div>
          )}
          {errorOf("scopes") && (
            <p role="alert" className="text-xs text-bad">
              {errorOf("scopes")}
            </p>
          )}
        </fieldset>
        {sent.error && !known && <ErrorPanel problem={sent.error} compact />}
      </div>
    </Dialog>
  );
}

function Once({ made, onClose }: { made: Made; onClose: () => void }) {
  return (
    <Dialog title={`${made.record.name} is made`} onClose={onClose} footer={<Button look="primary" onClick={onClose}>I have kept it</Button>}>
      <div className="flex flex-col gap-3">
        <Notice tone="warn">This is the only time that it is shown: only its hash is stored. Keep it where your program finds it, and nowhere else.</Notice>
        <div className="flex items-center gap-2 rounded-md border bg-sunken p-3">
          <code data-secret className="min-w-0 grow font-mono text-xs wrap-anywhere">
            {made.token}
          </code>
          <Copy text={made.token} label="Copy the token" />
        </div>
        <p className="text-xs text-muted">To try it, with the token in ROTA_TOKEN:</p>
        <Snippet code={`curl -H "Authorization: Bearer $ROTA_TOKEN" ${absoluteUrl("/auth/me")}`} />
      </div>
    </Dialog>
  );
}
