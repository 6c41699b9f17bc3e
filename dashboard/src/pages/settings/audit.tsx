/** Who has changed what. */

import { type ItemOf, usePages } from "@/api";
import { roleWords } from "@/lib/rights";
import { toJson } from "@/lib/json";
import { useUrlState } from "@/lib/urlState";
import { Button, type Column, Dialog, Empty, Facts, Json, type Qualifier, SearchBox, Table, Time } from "@/ui";

type Entry = ItemOf<"/api/admin/audit">;

const QUALIFIERS: Qualifier[] = [
  { name: "actor", help: "what this one did, by address" },
  { name: "operation", help: "only this, as users.create", values: ["jobs.retry", "jobs.cancel", "schedules.create", "schedules.update", "schedules.delete", "queues.pause", "queues.resume", "users.create", "users.disable", "tokens.create", "tokens.revoke"] },
  { name: "target", help: "what was done to this: a name or an id" },
];
const NAMES = ["actor", "operation", "target"] as const;

/** The qualifiers in a line of search; a word without one is an address if it has an @, an operation if it has a dot, else a target. */
export function readAudit(text: string): Partial<Record<(typeof NAMES)[number], string>> {
  const found: Partial<Record<(typeof NAMES)[number], string>> = {};
  for (const [, name, quoted, plain] of text.matchAll(/(?:(\w+):)?(?:"([^"]*)"|(\S+))/g)) {
    const value = quoted ?? plain ?? "";
    const known = NAMES.find((each) => each === name);
    if (known) found[known] = value;
    else if (value.includes("@")) found.actor = value;
    else if (/^\w+\.\w+$/.test(value) && !name) found.operation = value;
    else found.target = name ? `${name}:${value}` : value;
  }
  return found;
}

export function Audit() {
  const [view, setView] = useUrlState({ q: "", entry: 0 });
  const list = usePages("/api/admin/audit", { query: readAudit(view.q) }, { everyMs: 10_000 });
  const entry = view.entry ? list.rows.find((each) => each.id === view.entry) : undefined;
  const columns: Column<Entry>[] = [
    { key: "at", title: "When", cell: (each) => <Time at={each.at} />, width: "7rem" },
    { key: "actor", title: "Who", cell: (each) => <Filter text={each.actor} onClick={() => setView({ q: `actor:${quote(each.actor)}` })} />, truncate: true, width: "14rem", hideBelow: "sm" },
    {
      key: "operation",
      title: "What",
      cell: (each) => (
        <>
          <Filter text={each.operation} mono onClick={() => setView({ q: `operation:${quote(each.operation)}` })} />
          <div className="truncate text-xs text-muted sm:hidden">
            {each.target} · {each.actor}
          </div>
        </>
      ),
      truncate: true,
    },
    { key: "target", title: "Of what", cell: (each) => <Filter text={each.target} mono onClick={() => setView({ q: `target:${quote(each.target)}` })} />, truncate: true, width: "16rem", hideBelow: "sm" },
    { key: "detail", title: "Details", cell: (each) => <span className="font-mono text-xs text-muted">{Object.keys(each.detail).length > 0 ? toJson(each.detail) : ""}</span>, truncate: true, width: "20rem", hideBelow: "xl" },
  ];
  return (
    <div className="flex flex-col gap-3">
      <SearchBox label="Search the audit" placeholder="actor:ada@example.org operation:users.create target:nightly" value={view.q} onChange={(q) => setView({ q })} qualifiers={QUALIFIERS} />
      <Table
        label="Audit"
        list={list}
        columns={columns}
        rowKey={(each) => String(each.id)}
        onOpen={(each) => setView({ entry: each.id }, { replace: true })}
        current={view.entry ? String(view.entry) : null}
        empty={
          <Empty title={view.q ? "Nothing fits" : "Nobody has changed anything yet"} icon={view.q ? "search" : "user"} action={view.q && <Button onClick={() => setView({ q: "" })}>Show all</Button>}>
            {!view.q && "Every change that somebody makes, here or by a command, is written down: when, who, what, and of what."}
          </Empty>
        }
      />
      {entry && (
        <Dialog title={entry.operation} side onClose={() => setView({ entry: 0 }, { replace: true })}>
          <div className="flex flex-col gap-4">
            <Facts
              items={[
                ["When", <Time key="at" at={entry.at} absolute />],
                ["Who", entry.actor],
                ["In the role", roleWords(entry.role)],
                ["Signed in by", entry.via ?? "nothing: the system itself"],
                ["Of what", <span key="target" className="font-mono text-xs">{entry.target}</span>],
              ]}
            />
            <Json value={entry.detail} label="Details" />
          </div>
        </Dialog>
      )}
    </div>
  );
}

function Filter({ text, mono, onClick }: { text: string; mono?: boolean; onClick: () => void }) {
  return (
    <button type="button" title={`Only ${text}`} onClick={onClick} className={`max-w-full truncate text-left hover:underline ${mono ? "font-mono text-xs" : ""}`}>
      {text}
    </button>
  );
}

function quote(text: string): string {
  return /[\s"]/.test(text) ? `"${text.replaceAll('"', "")}"` : text;
}
