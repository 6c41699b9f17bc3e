/** Alerts: the open ones, or all; one of them at the side; and the word that somebody knows of it. */

import { useState } from "react";
import { useSearch } from "wouter";
import { type ItemOf, useAct, useApi, usePages } from "@/api";
import { useRights } from "@/lib/rights";
import { hrefWith, useUrlState } from "@/lib/urlState";
import { Button, type Column, Dialog, Empty, ErrorPanel, Facts, Json, Link, Section, Select, Skeleton, StateBadge, Table, Textarea, Time } from "@/ui";
import { KINDS, kindWords } from "./kinds";

type Alert = ItemOf<"/api/admin/alerts">;

const WHICH = [
  { value: "", label: "Open" },
  { value: "1", label: "All, also those that are over" },
];

export function AlertList() {
  const [view, setView] = useUrlState({ all: "", kind: "", alert: 0 });
  const [knowing, setKnowing] = useState<Alert | null>(null);
  const { can } = useRights();
  const search = useSearch();
  const list = usePages("/api/admin/alerts", { query: { all: view.all === "1" || undefined, kind: view.kind } });
  const kinds = [{ value: "", label: "All kinds" }, ...Object.entries(KINDS).map(([value, label]) => ({ value, label })), ...(view.kind && !KINDS[view.kind] ? [{ value: view.kind, label: kindWords(view.kind) }] : [])];
  const columns: Column<Alert>[] = [
    { key: "severity", title: "Severity", cell: (alert) => <StateBadge state={alert.severity} />, width: "6.5rem" },
    {
      key: "summary",
      title: "What",
      cell: (alert) => (
        <div className="min-w-0">
          <Link href={hrefWith("/alerts", search, { alert: String(alert.id) })} className="line-clamp-2 wrap-anywhere whitespace-normal text-text">
            {alert.summary}
          </Link>
          <div className="flex gap-1 text-xs text-muted">
            <span className="truncate">
              {kindWords(alert.kind)} · {alert.subject}
            </span>
            <span className="shrink-0 sm:hidden">
              · <Time at={alert.last_seen_at} />
            </span>
          </div>
        </div>
      ),
      truncate: true,
    },
    { key: "count", title: "Times", align: "right", cell: (alert) => alert.count.toLocaleString("en"), width: "4rem", hideBelow: "sm" },
    { key: "seen", title: "Last seen", cell: (alert) => <Time at={alert.last_seen_at} />, width: "7rem", hideBelow: "sm" },
    { key: "first", title: "Opened", cell: (alert) => <Time at={alert.opened_at} />, width: "7rem", hideBelow: "lg" },
    { key: "state", title: "State", cell: (alert) => <StateBadge state={alert.state} />, width: "8rem", hideBelow: "md" },
    {
      key: "act",
      title: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (alert) =>
        alert.state === "open" && (
          <Button small collapse icon="check" op="alerts.change" onClick={() => setKnowing(alert)} aria-label={`Acknowledge: ${alert.summary}`}>
            Acknowledge…
          </Button>
        ),
      width: "1%",
    },
  ];
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap gap-2">
        <Select label="Which" hideLabel value={view.all} options={WHICH} onChange={(all) => setView({ all })} className="w-56" />
        <Select label="Kind" hideLabel value={view.kind} options={kinds} onChange={(kind) => setView({ kind })} className="w-64" />
      </div>
      <Table
        label="Alerts"
        list={list}
        columns={columns}
        rowKey={(alert) => String(alert.id)}
        onOpen={(alert) => setView({ alert: alert.id })}
        current={view.alert ? String(view.alert) : null}
        rowKeys={[{ keys: "c", does: "Acknowledge it", run: (alert) => can("alerts.change") && alert.state === "open" && setKnowing(alert) }]}
        empty={<Quiet filtered={view.kind !== "" || view.all !== ""} onAll={() => setView({ all: "1", kind: "" })} />}
      />
      {view.alert > 0 && !knowing && <Detail id={view.alert} onClose={() => setView({ alert: 0 })} onAcknowledge={setKnowing} />}
      {knowing && <Acknowledge alert={knowing} onClose={() => setKnowing(null)} />}
    </div>
  );
}

function Quiet({ filtered, onAll }: { filtered: boolean; onAll: () => void }) {
  return (
    <Empty title={filtered ? "No such alert" : "Nothing needs you"} icon="check" action={!filtered && <Button onClick={onAll}>Show those that are over</Button>} waiting={filtered ? undefined : "alerts come here by themselves"}>
      {!filtered && "Jobs that fail for good, queues that do not get on, dead workers and missed deadlines open an alert. Webhooks tell others of them."}
    </Empty>
  );
}

function Detail({ id, onClose, onAcknowledge }: { id: number; onClose: () => void; onAcknowledge: (alert: Alert) => void }) {
  const found = useApi("/api/admin/alerts/{id}", { path: { id } }, { keep: false });
  const alert = found.data;
  const job = typeof alert?.details.job_id === "string" ? alert.details.job_id : null;
  return (
    <Dialog
      title={alert ? kindWords(alert.kind) : `Alert ${id}`}
      side
      onClose={onClose}
      footer={
        alert?.state === "open" && (
          <Button look="primary" icon="check" op="alerts.change" onClick={() => onAcknowledge(alert)}>
            Acknowledge…
          </Button>
        )
      }
    >
      {found.error && <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} />}
      {!alert && !found.error && <Skeleton lines={6} />}
      {alert && (
        <div className="flex flex-col gap-5">
          <p className="wrap-anywhere whitespace-pre-wrap">{alert.summary}</p>
          <Facts
            items={[
              ["State", <StateBadge key="state" state={alert.state} />],
              ["Severity", <StateBadge key="severity" state={alert.severity} />],
              ["About", alert.subject],
              job !== null && ["Job", <Link key="job" href={`/jobs/${encodeURIComponent(job)}`} className="font-mono text-xs">{job}</Link>],
              alert.fingerprint !== "" && ["Errors", <Link key="errors" href={`/errors?group=${encodeURIComponent(alert.fingerprint)}`} className="font-mono text-xs">{alert.fingerprint}</Link>],
              ["Times", `${alert.count.toLocaleString("en")}, opened ${alert.times_opened === 1 ? "once" : `${alert.times_opened} times`}`],
              ["First seen", <Time key="first" at={alert.first_seen_at} absolute />],
              ["Last seen", <Time key="last" at={alert.last_seen_at} absolute />],
              ["Opened", <Time key="opened" at={alert.opened_at} absolute />],
              alert.acknowledged_at !== null && ["Acknowledged", <span key="known"><Time at={alert.acknowledged_at} /> by {alert.acknowledged_by ?? "somebody"}</span>],
              alert.note !== null && ["Note", alert.note],
              alert.resolved_at !== null && ["Over since", <Time key="over" at={alert.resolved_at} absolute />],
            ]}
          />
          <Section title="Details">
            <Json value={alert.details} label="Details" />
          </Section>
        </div>
      )}
    </Dialog>
  );
}

function Acknowledge({ alert, onClose }: { alert: Alert; onClose: () => void }) {
  const [note, setNote] = useState("");
  const send = useAct("post", "/api/admin/alerts/{id}/acknowledge", { done: "Acknowledged", toastErrors: false });
  return (
    <Dialog
      title="Acknowledge the alert"
      width="sm"
      onClose={onClose}
      onSubmit={() => !send.isPending && send.mutate({ path: { id: alert.id }, body: { note: note.trim() || null } }, { onSuccess: onClose })}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op="alerts.change" busy={send.isPending}>
            Acknowledge
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p className="line-clamp-4 text-muted wrap-anywhere">{alert.summary}</p>
        <Textarea label="Note" hint="For whoever wonders later." rows={2} value={note} onChange={setNote} maxLength={500} error={send.error?.field("note")} data-autofocus />
        <p className="text-xs text-muted">It is no longer listed as open, and still counted. When it is over and comes back, it opens again.</p>
        {send.error && <ErrorPanel problem={send.error} compact />}
      </div>
    </Dialog>
  );
}
