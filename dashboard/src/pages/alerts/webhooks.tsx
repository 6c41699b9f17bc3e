/** Webhooks: who is told of alerts, and what became of the messages. */

import { useState } from "react";
import { type ItemOf, listOf, useAct, useApi, usePages } from "@/api";
import { toast } from "@/lib/toasts";
import { useUrlState } from "@/lib/urlState";
import { Badge, Button, type Column, Confirm, Duration, Empty, Id, Link, Menu, Select, StateBadge, Switch, Table, Time } from "@/ui";
import { AddWebhook } from "./add-webhook";
import { kindWords } from "./kinds";

type Webhook = ItemOf<"/api/admin/webhooks">;
type Delivery = ItemOf<"/api/admin/webhooks/deliveries">;

const EVERY_MS = 5000;

export function Webhooks() {
  const [view, setView] = useUrlState({ tab: "alerts", add: false, webhook: "" });
  const [removing, setRemoving] = useState<Webhook | null>(null);
  const list = listOf(useApi("/api/admin/webhooks", {}, { everyMs: EVERY_MS }), (data) => data.items);
  const enable = useAct("post", "/api/admin/webhooks/{id}/enable", { done: "Enabled" });
  const disable = useAct("post", "/api/admin/webhooks/{id}/disable", { done: "Disabled: what waited to be sent is not sent" });
  const remove = useAct("delete", "/api/admin/webhooks/{id}", { done: "Removed", toastErrors: false });
  const test = useAct("post", "/api/admin/webhooks/{id}/test");
  const deliveries = (id: number) => setView({ tab: "deliveries", webhook: String(id) });
  const sendTest = (webhook: Webhook) => test.mutate({ path: { id: webhook.id } }, { onSuccess: () => toast("A test message is on its way", { action: { label: "Show deliveries", run: () => deliveries(webhook.id) } }) });
  const columns: Column<Webhook>[] = [
    {
      key: "url",
      title: "Where to",
      cell: (webhook) => (
        <div className="min-w-0">
          <div className="truncate font-mono text-xs" title={webhook.url}>
            {webhook.url}
          </div>
          <div className="text-xs text-muted">webhook {webhook.id}</div>
        </div>
      ),
      truncate: true,
    },
    { key: "kinds", title: "Of which alerts", cell: (webhook) => (webhook.kinds.length === 0 ? "all" : webhook.kinds.map(kindWords).join("; ")), truncate: true, hideBelow: "md" },
    {
      key: "on",
      title: "On",
      cell: (webhook) => <Switch label={`Webhook ${webhook.id} is enabled`} hideLabel checked={webhook.enabled} op="webhooks.change" busy={[enable, disable].some((act) => act.isPending && act.variables?.path?.id === webhook.id)} onChange={(on) => (on ? enable : disable).mutate({ path: { id: webhook.id } })} />,
      width: "3.5rem",
    },
    {
      key: "last",
      title: "Last message",
      cell: (webhook) =>
        webhook.last_state ? (
          <span className="inline-flex items-center gap-2">
            <StateBadge state={webhook.last_state} />
            {webhook.last_status !== null && <span className="text-xs text-muted">{webhook.last_status}</span>}
            <Time at={webhook.last_tried_at} empty="" />
          </span>
        ) : (
          <span className="text-faint">none yet</span>
        ),
      width: "15rem",
      hideBelow: "sm",
    },
    {
      key: "acts",
      title: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (webhook) => (
        <span className="inline-flex items-center gap-1">
          <Button small op="webhooks.change" disabledWhy={!webhook.enabled && "It is disabled"} onClick={() => sendTest(webhook)} busy={test.isPending && test.variables?.path?.id === webhook.id}>
            Test
          </Button>
          <Menu
            label={`Actions for webhook ${webhook.id}`}
            hideLabel
            small
            look="quiet"
            icon="dots"
            items={[
              { label: "Deliveries", icon: "logs", onSelect: () => deliveries(webhook.id) },
              "-",
              { label: "Remove…", icon: "trash", danger: true, op: "webhooks.change", onSelect: () => setRemoving(webhook) },
            ]}
          />
        </span>
      ),
      width: "7rem",
    },
  ];
  const add = (
    <Button look="primary" icon="plus" op="webhooks.change" onClick={() => setView({ add: true })}>
      Add a webhook
    </Button>
  );
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <p className="text-muted">They are told of alerts that open, by signed messages.</p>
        <span className="ml-auto">{list.rows.length > 0 && add}</span>
      </div>
      <Table
        label="Webhooks"
        list={list}
        columns={columns}
        rowKey={(webhook) => String(webhook.id)}
        onOpen={(webhook) => deliveries(webhook.id)}
        empty={
          <Empty title="Nobody is told of alerts" icon="globe" action={add}>
            A webhook is an address that a message is sent to when an alert opens: a chat, a pager, a service of yours.
          </Empty>
        }
      />
      {view.add && <AddWebhook onClose={() => setView({ add: false })} />}
      {removing && (
        <Confirm title={`Remove webhook ${removing.id}`} action="Remove" danger onClose={() => setRemoving(null)} onConfirm={() => remove.mutateAsync({ path: { id: removing.id } })}>
          <code className="font-mono text-xs">{removing.url}</code> is told of nothing more, and the record of what was sent to it is gone.
        </Confirm>
      )}
    </div>
  );
}

export function Deliveries() {
  const [view, setView] = useUrlState({ webhook: "" });
  const chosen = /^\d+$/.test(view.webhook) ? Number(view.webhook) : undefined;
  const webhooks = useApi("/api/admin/webhooks");
  const list = usePages("/api/admin/webhooks/deliveries", { query: { webhook: chosen } }, { everyMs: EVERY_MS });
  const columns: Column<Delivery>[] = [
    { key: "at", title: "Made", cell: (each) => <Time at={each.created_at} />, width: "6rem" },
    { key: "state", title: "State", cell: (each) => <StateBadge state={each.state} />, width: "8rem" },
    { key: "webhook", title: "To", align: "right", cell: (each) => each.webhook_id, width: "3.5rem", hideBelow: "sm" },
    { key: "alert", title: "Alert", cell: (each) => (each.alert_id === null ? <Badge>test</Badge> : <Link href={`/alerts?alert=${each.alert_id}`}>{each.alert_id}</Link>), width: "5rem" },
    { key: "status", title: "Answer", align: "right", cell: (each) => each.status ?? "–", width: "5rem", hideBelow: "sm" },
    { key: "tries", title: "Tries", align: "right", cell: (each) => each.attempt, width: "4rem", hideBelow: "sm" },
    { key: "took", title: "Took", align: "right", cell: (each) => <Duration of={each.took} />, width: "5rem", hideBelow: "md" },
    { key: "error", title: "Error", cell: (each) => <span title={each.error ?? undefined}>{each.error ?? ""}</span>, truncate: true, hideBelow: "md" },
    { key: "id", title: "Id", cell: (each) => <Id id={each.id} copy />, width: "8rem", hideBelow: "lg" },
  ];
  const options = [{ value: "", label: "To all webhooks" }, ...(webhooks.data?.items ?? []).map((each) => ({ value: String(each.id), label: `${each.id}: ${each.url}` }))];
  return (
    <div className="flex flex-col gap-3">
      <Select label="Webhook" hideLabel value={view.webhook} options={options.some((each) => each.value === view.webhook) ? options : [...options, { value: view.webhook, label: `webhook ${view.webhook}` }]} onChange={(webhook) => setView({ webhook })} className="w-72 max-w-full" />
      <Table label="Deliveries" list={list} columns={columns} rowKey={(each) => each.id} empty={<Empty title="No message yet" icon="globe" waiting="messages are listed here as they are sent" />} />
    </div>
  );
}
