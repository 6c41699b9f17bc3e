/** A new HTTP job. */

import { useState } from "react";
import { type BodyOf, useAct } from "@/api";
import { parseJson } from "@/lib/json";
import { now } from "@/lib/clock";
import { zone } from "@/lib/format";
import { Button, Dialog, ErrorPanel, IconButton, Input, Select, Textarea } from "@/ui";
import { localText } from "../job/dialogs";

type NewJob = BodyOf<"post", "/jobs">;

const METHODS = ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] as const;
type BodyKind = "none" | "json" | "text";

export interface Form {
  url: string;
  method: (typeof METHODS)[number];
  headers: { name: string; value: string }[];
  kind: BodyKind;
  body: string;
  later: boolean;
  at: string;
  timeout: string;
  attempts: string;
  base: string;
  cap: string;
  key: string;
  secret: string;
}

const EMPTY: Form = { url: "", method: "POST", headers: [], kind: "none", body: "", later: false, at: "", timeout: "", attempts: "", base: "", cap: "", key: "", secret: "" };

/** What is wrong with it before anybody is asked; by the server's names of the fields. */
export function wrongOf(form: Form): Record<string, string> {
  const wrong: Record<string, string> = {};
  if (!/^https?:\/\/[^\s/]+/i.test(form.url.trim())) wrong.url = form.url.trim() ? "A URL begins with https:// or http://" : "Where to?";
  if (form.kind === "json") {
    try {
      parseJson(form.body);
    } catch (error) {
      wrong.json = `This is not JSON: ${(error as Error).message}`;
    }
  }
  if (form.later && Number.isNaN(new Date(form.at).getTime())) wrong.run_at = "When?";
  for (const [name, value] of [["timeout_s", form.timeout], ["retry.max_attempts", form.attempts], ["retry.base_s", form.base], ["retry.cap_s", form.cap]] as const) {
    if (value.trim() && !(Number(value) >= 0)) wrong[name] = "A number, please";
  }
  if (form.headers.some((each) => !each.name.trim() && each.value)) wrong.headers = "A header has no name";
  return wrong;
}

/** The request that a form means: what is left empty is left out. */
export function requestOf(form: Form): NewJob {
  const number = (text: string) => (text.trim() ? Number(text) : undefined);
  const retry = { max_attempts: number(form.attempts), base_s: number(form.base), cap_s: number(form.cap) };
  const headers = form.headers.filter((each) => each.name.trim()).map((each) => [each.name.trim(), each.value] as const);
  const request: Partial<NewJob> & { url: string } = {
    url: form.url.trim(),
    method: form.method,
    ...(headers.length ? { headers: Object.fromEntries(headers) } : {}),
    ...(form.kind === "json" ? { json: parseJson(form.body) } : form.kind === "text" ? { body: form.body } : {}),
    ...(form.later ? { run_at: new Date(form.at).toISOString() } : {}),
    ...(form.timeout.trim() ? { timeout_s: Number(form.timeout) } : {}),
    ...(Object.values(retry).some((each) => each !== undefined) ? { retry: retry as NewJob["retry"] } : {}),
    ...(form.key ? { idempotency_key: form.key } : {}),
    ...(form.secret ? { signing_secret: form.secret } : {}),
  };
  return request as NewJob;
}

export function Create({ onClose, onMade }: { onClose: () => void; onMade: (id: string) => void }) {
  const [form, setForm] = useState(EMPTY);
  const [tried, setTried] = useState(false);
  const make = useAct("post", "/jobs", { done: "It is stored", toastErrors: false });
  const set = (change: Partial<Form>) => setForm((before) => ({ ...before, ...change }));
  const wrong = wrongOf(form);
  const errorOf = (name: string) => (tried ? wrong[name] : undefined) ?? make.error?.field(name);
  const send = async () => {
    setTried(true);
    if (Object.keys(wrong).length > 0 || make.isPending) return;
    try {
      onMade((await make.mutateAsync({ body: requestOf(form) })).id);
    } catch {
      // shown below and at its field
    }
  };
  return (
    <Dialog
      title="New call"
      onClose={onClose}
      onSubmit={() => void send()}
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button type="submit" look="primary" busy={make.isPending}>
            {form.later ? "Schedule the call" : "Call now"}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <div className="flex gap-2">
          <Select label="Method" className="w-28 shrink-0" value={form.method} onChange={(method) => set({ method: method as Form["method"] })} options={[...METHODS]} />
          <Input label="URL" className="grow" type="url" value={form.url} onChange={(url) => set({ url })} placeholder="https://api.example.org/hooks" error={errorOf("url")} required data-autofocus />
        </div>
        <Headers form={form} set={set} error={errorOf("headers")} />
        <div className="flex flex-col gap-2">
          <Select
            label="Body"
            value={form.kind}
            onChange={(kind) => set({ kind: kind as BodyKind })}
            options={[
              { value: "none", label: "none" },
              { value: "json", label: "JSON" },
              { value: "text", label: "text" },
            ]}
          />
          {form.kind !== "none" && <Textarea label={form.kind === "json" ? "JSON" : "Text"} hideLabel mono rows={6} value={form.body} onChange={(body) => set({ body })} error={errorOf(form.kind === "json" ? "json" : "body")} placeholder={form.kind === "json" ? '{"order": 7}' : ""} />}
        </div>
        <div className="grid gap-3 sm:grid-cols-2">
          <Select
            label="When"
            value={form.later ? "later" : "now"}
            onChange={(when) => set({ later: when === "later", at: form.at || localText(now() + 3_600_000) })}
            options={[
              { value: "now", label: "at once" },
              { value: "later", label: "at a time" },
            ]}
          />
          {form.later && <Input label="Time" type="datetime-local" step={1} value={form.at} onChange={(at) => set({ at })} hint={`In your time zone, ${zone}.`} error={errorOf("run_at")} />}
        </div>
        <details className="border-t pt-3">
          <summary className="text-sm font-medium">Timeout, retries, signature</summary>
          <div className="mt-3 grid gap-3 sm:grid-cols-2">
            <Input label="Timeout in seconds" inputMode="decimal" value={form.timeout} onChange={(timeout) => set({ timeout })} placeholder="30" error={errorOf("timeout_s")} />
            <Input label="Attempts at most" inputMode="numeric" value={form.attempts} onChange={(attempts) => set({ attempts })} hint="1: never again." error={errorOf("retry.max_attempts")} />
            <Input label="First pause in seconds" inputMode="decimal" value={form.base} onChange={(base) => set({ base })} placeholder="5" hint="Then twice that, and so on." error={errorOf("retry.base_s")} />
            <Input label="Longest pause in seconds" inputMode="decimal" value={form.cap} onChange={(cap) => set({ cap })} placeholder="300" error={errorOf("retry.cap_s")} />
            <Input label="Idempotency key" value={form.key} onChange={(key) => set({ key })} hint="A second request with it is the same job, for a day." error={errorOf("idempotency_key")} maxLength={255} />
            <Input label="Signing secret" type="password" autoComplete="new-password" value={form.secret} onChange={(secret) => set({ secret })} hint="Who is called can tell that it is you." error={errorOf("signing_secret")} />
          </div>
        </details>
        {make.error && <ErrorPanel problem={make.error} compact />}
      </div>
    </Dialog>
  );
}

function Headers({ form, set, error }: { form: Form; set: (change: Partial<Form>) => void; error: string | undefined }) {
  const change = (index: number, part: Partial<Form["headers"][number]>) => set({ headers: form.headers.with(index, { ...form.headers[index]!, ...part }) });
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 text-xs font-medium">Headers</legend>
      {form.headers.map((each, index) => (
        <div key={index} className="flex items-start gap-2">
          <Input label={`Name of header ${index + 1}`} hideLabel mono className="w-2/5" value={each.name} onChange={(name) => change(index, { name })} placeholder="X-Api-Key" />
          <Input label={`Value of header ${index + 1}`} hideLabel mono className="grow" value={each.value} onChange={(value) => change(index, { value })} />
          <IconButton label={`Remove header ${index + 1}`} icon="trash" onClick={() => set({ headers: form.headers.toSpliced(index, 1) })} />
        </div>
      ))}
      {error && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
      <div>
        <Button small icon="plus" onClick={() => set({ headers: [...form.headers, { name: "", value: "" }] })}>
          Add a header
        </Button>
      </div>
    </fieldset>
  );
}
