/** Signing in: one asks for a link by mail. */

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { Redirect, useSearch } from "wouter";
import { act } from "@/api";
import { send } from "@/api/client";
import { Problem, asProblem } from "@/api/problem";
import { onTick } from "@/lib/clock";
import { base, environment } from "@/lib/root";
import { Button, Input, Notice } from "@/ui";

const AGAIN_MS = 30_000;
const LOOK_MS = 4000;

/** The place to go to afterwards, below the dashboard; anything else is the start. */
export function placeOf(search: string): string {
  const next = new URLSearchParams(search).get("next") ?? "";
  const own = next === base || next.startsWith(`${base}/`) || next.startsWith(`${base}?`);
  const place = own ? next.slice(base.length) || "/" : "/";
  return place.startsWith("//") || place.includes("\\") || place.startsWith("/sign-in") ? "/" : place.startsWith("?") ? `/${place}` : place;
}

export default function SignIn() {
  const place = placeOf(useSearch());
  const [asked, setAsked] = useState<{ email: string; at: number } | null>(null);
  // Who has a session already goes on; after a link was asked for, the page looks whether it has been used in this browser.
  const me = useQuery({ queryKey: ["signed-in"], queryFn: async ({ signal }) => (await send("get", "/auth/me", { signal })).body, retry: false, refetchInterval: asked ? LOOK_MS : false, refetchOnWindowFocus: true });
  useEffect(() => {
    document.title = "Sign in · Rota";
  }, []);
  if (me.data && !me.error) return <Redirect to={place} replace />;
  return (
    <main className="mx-auto flex min-h-[80vh] w-full max-w-sm flex-col justify-center gap-5 px-4 py-10">
      <header className="flex items-center gap-3">
        <svg viewBox="0 0 32 32" width="32" height="32" aria-hidden="true">
          <rect width="32" height="32" rx="7" className="fill-accent-fill" />
          <path d="M16 6.5a9.5 9.5 0 1 0 9.5 9.5M16 10.5V16l4 2.5" fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round" strokeLinejoin="round" />
          <circle cx="22.7" cy="9.3" r="2" fill="#fff" />
        </svg>
        <h1 className="text-xl font-semibold tracking-tight">{asked ? "Look into your mail" : "Sign in to Rota"}</h1>
      </header>
      {asked ? <Asked asked={asked} next={`${base}${place === "/" ? "" : place}`} onAgain={(at) => setAsked({ ...asked, at })} onOther={() => setAsked(null)} /> : <Ask next={`${base}${place === "/" ? "" : place}`} onAsked={(email) => setAsked({ email, at: Date.now() })} />}
      {environment === "local" && (
        <p className="border-t pt-3 text-xs text-muted">
          On this machine mails are written to the server’s log. Or print a link: <code className="font-mono wrap-anywhere">rota users link you@example.org</code>
        </p>
      )}
    </main>
  );
}

function Ask({ next, onAsked }: { next: string; onAsked: (email: string) => void }) {
  const [email, setEmail] = useState("");
  const [tried, setTried] = useState(false);
  const request = useRequest();
  const missing = email.trim() === "" ? "Write your email address." : undefined;
  const submit = async () => {
    setTried(true);
    if (!missing && (await request.send(email.trim(), next))) onAsked(email.trim());
  };
  const atField = request.problem?.field("email");
  return (
    <form
      noValidate
      className="flex flex-col gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <p className="text-muted">There are no passwords: you are mailed a link that signs you in.</p>
      <Input label="Email address" type="email" name="email" autoComplete="email" inputMode="email" autoFocus value={email} onChange={(text) => (setEmail(text), request.forget())} error={atField ?? (tried ? missing : undefined)} placeholder="you@example.org" />
      {request.problem && !atField && <Trouble problem={request.problem} at={request.at} />}
      <Button type="submit" look="primary" busy={request.busy} className="h-9">
        Mail me a link
      </Button>
    </form>
  );
}

function Asked({ asked, next, onAgain, onOther }: { asked: { email: string; at: number }; next: string; onAgain: (at: number) => void; onOther: () => void }) {
  const request = useRequest();
  const left = useLeft(asked.at + AGAIN_MS);
  const again = async () => {
    if (await request.send(asked.email, next)) onAgain(Date.now());
  };
  return (
    <div className="flex flex-col gap-4">
      <p role="status" className="wrap-anywhere">
        If <strong>{asked.email}</strong> may sign in, a link is on its way.
      </p>
      <ol className="flex flex-col gap-2">
        {["Open the mail, and the link in it: it is good for some minutes, and once.", "Press the button on the page that it opens.", "Opened in this browser, this page goes on by itself."].map((words, index) => (
          <li key={words} className="flex gap-2.5">
            <span className="grid size-5 shrink-0 place-items-center rounded-full bg-accent-soft text-xs font-medium text-accent">{index + 1}</span>
            {words}
          </li>
        ))}
      </ol>
      <p className="text-xs text-muted">Nothing came? Look among unwanted mail; is the address right, and does it have an account? An admin can tell. Only so many links are sent in an hour.</p>
      {request.problem && <Trouble problem={request.problem} at={request.at} />}
      <div className="flex flex-wrap gap-2">
        <Button icon="retry" onClick={() => void again()} busy={request.busy} disabledWhy={left > 0 && `Give the mail a moment: in ${left} s`}>
          {left > 0 ? `Send again (${left} s)` : "Send again"}
        </Button>
        <Button look="quiet" onClick={onOther}>
          Another address
        </Button>
      </div>
    </div>
  );
}

/** What went wrong, and what to do about it. */
function Trouble({ problem, at }: { problem: Problem; at: number }) {
  const left = useLeft(at + (problem.retryAfterS ?? 0) * 1000);
  if (problem.status === 429) return <Notice tone="warn">Too many requests from here. {left > 0 ? `Try again in ${left} s.` : "You can try again now."}</Notice>;
  if (problem.offline) return <Notice tone="bad">The server cannot be reached. Is it running, and are you connected? Then try again.</Notice>;
  return (
    <div role="alert">
      <Notice tone="bad">
        {problem.message}
        {problem.requestId && <span className="block pt-1 font-mono text-2xs">request {problem.requestId}</span>}
      </Notice>
    </div>
  );
}

/** Whole seconds until then, ticking. */
function useLeft(until: number): number {
  return useSyncExternalStore(onTick, () => Math.max(0, Math.ceil((until - Date.now()) / 1000)));
}

function useRequest() {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<{ problem: Problem; at: number } | null>(null);
  return {
    busy,
    problem: failed?.problem ?? null,
    at: failed?.at ?? 0,
    forget: () => setFailed(null),
    send: async (email: string, next: string): Promise<boolean> => {
      if (busy) return false;
      setBusy(true);
      setFailed(null);
      try {
        await act("post", "/auth/magic-link", { body: { email, next } });
        return true;
      } catch (error) {
        setFailed({ problem: asProblem(error), at: Date.now() });
        return false;
      } finally {
        setBusy(false);
      }
    },
  };
}

