/** Accounts: who there is, in which role; invite, enable and disable. */

import { useState } from "react";
import { type BodyOf, type ItemOf, act, useAct, usePages } from "@/api";
import { useMe } from "@/app/session";
import { roleWords } from "@/lib/rights";
import { toast } from "@/lib/toasts";
import { useUrlState } from "@/lib/urlState";
import { Badge, Button, Checkbox, type Column, Confirm, Dialog, Disallowed, Empty, ErrorPanel, Input, Select, StateBadge, Table, Time, Tooltip } from "@/ui";

type User = ItemOf<"/api/admin/users">;
type Role = NonNullable<BodyOf<"post", "/api/admin/users">["role"]>;

const ROLES: { value: Role; label: string; may: string }[] = [
  { value: "admin", label: "admin", may: "Everything, also accounts and tokens of others." },
  { value: "operator", label: "operator", may: "See and change jobs, queues, schedules and alerts." },
  { value: "read_only", label: "read-only", may: "See these, and workers." },
  { value: "user", label: "user", may: "HTTP jobs of their own, and tokens." },
];

export function Users() {
  const me = useMe();
  const [view, setView] = useUrlState({ invite: false });
  const [disabling, setDisabling] = useState<User | null>(null);
  const [promoting, setPromoting] = useState<{ user: User; role: Role } | null>(null);
  const list = usePages("/api/admin/users", {}, { everyMs: 15_000 });
  const change = useAct("patch", "/api/admin/users/{who}", { done: (user) => `${user.email} is ${roleWords(user.role)} now`, toastErrors: false });
  const enable = useAct("post", "/api/admin/users/{who}/enable", { done: (user) => `${user.email} may sign in again` });
  const disable = useAct("post", "/api/admin/users/{who}/disable", { done: (user) => `${user.email} is out`, toastErrors: false });
  const columns: Column<User>[] = [
    {
      key: "email",
      title: "Address",
      cell: (user) => (
        <span className="inline-flex max-w-full flex-wrap items-center gap-x-2">
          <span className="wrap-anywhere">{user.email}</span>
          {user.id === me.account_id && <Badge>you</Badge>}
        </span>
      ),
    },
    { key: "role", title: "Role", cell: (user) => <RoleSelect user={user} onChange={(role) => setPromoting({ user, role })} />, width: "7.5rem" },
    { key: "state", title: "State", cell: (user) => <StateBadge state={user.disabled_at ? "disabled" : "enabled"} />, width: "7rem", hideBelow: "sm" },
    { key: "signed", title: "Signed in last", cell: (user) => <Time at={user.signed_in_at} empty="never" />, width: "8rem", hideBelow: "md" },
    { key: "made", title: "Made", cell: (user) => <Time at={user.created_at} />, width: "8rem", hideBelow: "lg" },
    {
      key: "acts",
      title: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (user) =>
        user.disabled_at ? (
          <Button small op="users.change" onClick={() => enable.mutate({ path: { who: user.id } })} busy={enable.isPending && enable.variables?.path?.who === user.id} aria-label={`Enable ${user.email}`}>
            Enable
          </Button>
        ) : (
          <Button small op="users.change" disabledWhy={user.id === me.account_id && "This is you: ask another admin"} onClick={() => setDisabling(user)} aria-label={`Disable ${user.email}`}>
            Disable…
          </Button>
        ),
      width: "6rem",
    },
  ];
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <p className="text-muted">There are no passwords: people sign in by a link that they are mailed.</p>
        <span className="ml-auto">
          <Button look="primary" icon="plus" op="users.change" onClick={() => setView({ invite: true })}>
            Invite
          </Button>
        </span>
      </div>
      <Table label="Users" list={list} columns={columns} rowKey={(user) => user.id} empty={<Empty title="Nobody yet" icon="user" />} />
      {view.invite && <Invite onClose={() => setView({ invite: false })} />}
      {promoting && (
        <Confirm title="Change the role" action="Change" danger={promoting.role === "admin"} onClose={() => setPromoting(null)} onConfirm={() => change.mutateAsync({ path: { who: promoting.user.id }, body: { role: promoting.role } })}>
          {promoting.user.email} is {roleWords(promoting.user.role)}, and becomes <strong>{roleWords(promoting.role)}</strong> at once. {ROLES.find((each) => each.value === promoting.role)?.may}
          {promoting.user.id === me.account_id && <p className="pt-2 text-warn">This is you: you may not be able to change it back.</p>}
        </Confirm>
      )}
      {disabling && (
        <Confirm title={`Disable ${disabling.email}`} action="Disable" danger onClose={() => setDisabling(null)} onConfirm={() => disable.mutateAsync({ path: { who: disabling.id } })}>
          They are out at once: their sessions end, and their tokens are good for nothing until they are enabled again.
        </Confirm>
      )}
    </div>
  );
}

function RoleSelect({ user, onChange }: { user: User; onChange: (role: Role) => void }) {
  return (
    <Disallowed op="users.change">
      {({ disabled, reason }) => (
        <Tooltip words={reason}>
          <span tabIndex={disabled ? 0 : -1}>{disabled ? roleWords(user.role) : <Select label={`Role of ${user.email}`} hideLabel value={user.role} options={ROLES} onChange={(role) => role !== user.role && onChange(role as Role)} />}</span>
        </Tooltip>
      )}
    </Disallowed>
  );
}

function Invite({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("operator");
  const [mail, setMail] = useState(true);
  const [tried, setTried] = useState(false);
  const create = useAct("post", "/api/admin/users", { toastErrors: false });
  const missing = email.trim() === "" ? "Whom? Write their email address." : undefined;
  const submit = async () => {
    setTried(true);
    if (missing || create.isPending) return;
    const made = await create.mutateAsync({ body: { email: email.trim(), role } }).catch(() => null);
    if (!made) return;
    onClose();
    if (!mail) return toast(`${made.email} may sign in now`);
    try {
      await act("post", "/auth/magic-link", { body: { email: made.email } });
      toast(`${made.email} is invited: a link is on its way`);
    } catch (problem) {
      toast(`${made.email} has an account, but no link was mailed: ${(problem as Error).message}`, { kind: "bad" });
    }
  };
  const atField = create.error?.field("email") ?? (create.error?.status === 409 ? create.error.message : undefined);
  return (
    <Dialog
      title="Invite somebody"
      width="sm"
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op="users.change" busy={create.isPending}>
            Invite
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <Input label="Email address" type="email" required value={email} onChange={(text) => (setEmail(text), create.error && create.reset())} error={atField ?? (tried ? missing : undefined)} placeholder="ada@example.org" data-autofocus />
        <Select label="Role" value={role} options={ROLES} onChange={(value) => setRole(value as Role)} hint={ROLES.find((each) => each.value === role)?.may} />
        <Checkbox label="Mail them a link to sign in now" hint="Without it they ask for one on the sign-in page." checked={mail} onChange={setMail} />
        {create.error && !atField && <ErrorPanel problem={create.error} compact />}
      </div>
    </Dialog>
  );
}
