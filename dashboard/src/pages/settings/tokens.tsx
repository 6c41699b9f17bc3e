/** Tokens for programs: one's own, and for admins everybody's. */

import { useState } from "react";
import { type ItemOf, type ListState, useAct, usePages } from "@/api";
import { useMe } from "@/app/session";
import { now } from "@/lib/clock";
import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { Badge, Button, type Column, Confirm, Empty, Notice, Select, Table, Time } from "@/ui";
import { NewToken } from "./new-token";

type Token = ItemOf<"/auth/tokens">;

const WHOSE = [
  { value: "own", label: "Your own" },
  { value: "all", label: "Everybody’s" },
];
const EVERY_MS = 15_000;

export function Tokens() {
  const { can } = useRights();
  const [view, setView] = useUrlState({ whose: "own", create: false });
  const all = view.whose === "all" && can("users.read");
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        {can("users.read") && <Select label="Whose" hideLabel value={view.whose} options={WHOSE} onChange={(whose) => setView({ whose })} className="w-40" />}
        <p className="text-muted">
          Programs send one as <code className="font-mono text-xs">Authorization: Bearer rota_…</code>
        </p>
        <span className="ml-auto">
          <Button look="primary" icon="plus" onClick={() => setView({ create: true })}>
            New token
          </Button>
        </span>
      </div>
      {all ? <Everybodys /> : <Own />}
      {view.create && <NewToken forOthers={all} onClose={() => setView({ create: false })} />}
    </div>
  );
}

function Own() {
  const list = usePages("/auth/tokens", {}, { everyMs: EVERY_MS });
  const revoke = useAct("delete", "/auth/tokens/{id}", { done: "Revoked", toastErrors: false });
  return <TokenTable list={list} onRevoke={(token) => revoke.mutateAsync({ path: { id: token.id } })} />;
}

function Everybodys() {
  const list = usePages("/api/admin/tokens", {}, { everyMs: EVERY_MS });
  const revoke = useAct("delete", "/api/admin/tokens/{id}", { done: "Revoked", toastErrors: false });
  return <TokenTable list={list} withOwner op="tokens.change" onRevoke={(token) => revoke.mutateAsync({ path: { id: token.id } })} />;
}

function TokenTable({ list, withOwner, op, onRevoke }: { list: ListState<Token>; withOwner?: boolean; op?: string; onRevoke: (token: Token) => Promise<unknown> }) {
  const [revoking, setRevoking] = useState<Token | null>(null);
  const me = useMe();
  const nameOf = (id: number) => list.rows.find((each) => each.id === id)?.name ?? `token ${id}`;
  const columns: Column<Token>[] = [
    {
      key: "name",
      title: "Name",
      cell: (token) => (
        <div className="min-w-0">
          <div className="line-clamp-2 wrap-anywhere whitespace-normal">{token.name}</div>
          <div className="truncate font-mono text-xs text-muted">{token.hint}…</div>
          {token.parent_id !== null && <div className="truncate text-xs text-muted">created with {nameOf(token.parent_id)}</div>}
        </div>
      ),
      truncate: true,
    },
    ...(withOwner ? [{ key: "owner", title: "Owner", cell: (token: Token) => token.email, truncate: true, hideBelow: "sm" as const }] : []),
    { key: "scopes", title: "For", cell: (token) => <span title={token.scopes?.join(", ")}>{token.scopes?.join(", ") ?? "all that its owner may"}</span>, truncate: true, hideBelow: "md" },
    { key: "state", title: "State", cell: (token) => <TokenState token={token} />, width: "8.5rem" },
    { key: "used", title: "Used last", cell: (token) => <Time at={token.last_used_at} empty="never" />, width: "7rem", hideBelow: "sm" },
    { key: "made", title: "Made", cell: (token) => <span title={`by ${token.created_by}`}><Time at={token.created_at} /></span>, width: "7rem", hideBelow: "lg" },
    {
      key: "acts",
      title: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (token) =>
        token.revoked_at === null && (
          <Button small op={op} onClick={() => setRevoking(token)} aria-label={`Revoke ${token.name}`}>
            Revoke…
          </Button>
        ),
      width: "6rem",
    },
  ];
  return (
    <>
      <Table
        label="Tokens"
        list={list}
        columns={columns}
        rowKey={(token) => String(token.id)}
        empty={
          <Empty title="No tokens yet" icon="key" snippet={`curl -H "Authorization: Bearer rota_…" ${location.origin}/auth/me`}>
            A token lets a program do what {withOwner ? "its owner" : "you"} may, or a part of it.
          </Empty>
        }
      />
      {revoking && (
        <Confirm title={`Revoke ${revoking.name}`} action="Revoke" danger onClose={() => setRevoking(null)} onConfirm={() => onRevoke(revoking)}>
          Programs that use it, or a token created with it, are refused from now on. This cannot be undone.
          {revoking.account_id !== me.account_id && <Notice tone="warn">It is a token of {revoking.email}.</Notice>}
        </Confirm>
      )}
    </>
  );
}

function TokenState({ token }: { token: Token }) {
  if (token.revoked_at) return <Badge icon="ban" title={token.revoked_at}>revoked</Badge>;
  if (!token.expires_at) return <Badge tone="ok" icon="check">until revoked</Badge>;
  if (Date.parse(token.expires_at) <= now()) return <Badge icon="stop" title={token.expires_at}>over</Badge>;
  return (
    <Badge tone="ok" icon="check">
      ends <Time at={token.expires_at} />
    </Badge>
  );
}
