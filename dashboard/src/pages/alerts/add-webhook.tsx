/** The dialog that adds a webhook, and shows its secret the one time that it is seen. */

import { useState } from "react";
import { useAct } from "@/api";
import { Button, Checkbox, Copy, Dialog, ErrorPanel, Input, Notice } from "@/ui";
import { KINDS } from "./kinds";

export function AddWebhook({ onClose }: { onClose: () => void }) {
  const [url, setUrl] = useState("");
  const [kinds, setKinds] = useState<string[]>([]);
  const [tried, setTried] = useState(false);
  const add = useAct("post", "/api/admin/webhooks", { done: "Added", toastErrors: false });
  if (add.data) return <Secret id={add.data.id} secret={add.data.secret} onClose={onClose} />;
  const missing = url.trim() === "" ? "Where to? Write an address that begins with https://." : undefined;
  const submit = () => {
    setTried(true);
    if (!missing && !add.isPending) add.mutate({ body: { url: url.trim(), kinds } });
  };
  const atField = add.error?.field("url");
  return (
    <Dialog
      title="Add a webhook"
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op="webhooks.change" busy={add.isPending}>
            Add
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <Input label="URL" type="url" mono required value={url} onChange={(text) => (setUrl(text), add.error && add.reset())} error={atField ?? (tried ? missing : undefined)} placeholder="https://example.org/hooks/rota" hint="Later only the server’s name is shown: with many services the rest is a secret." data-autofocus />
        <fieldset className="flex flex-col gap-1.5">
          <legend className="pb-1 text-xs font-medium">Of which alerts? None chosen: of all.</legend>
          {Object.entries(KINDS).map(([kind, words]) => (
            <Checkbox key={kind} label={words} checked={kinds.includes(kind)} onChange={(on) => setKinds(on ? [...kinds, kind] : kinds.filter((each) => each !== kind))} />
          ))}
        </fieldset>
        {add.error && !atField && <ErrorPanel problem={add.error} compact />}
      </div>
    </Dialog>
  );
}

function Secret({ id, secret, onClose }: { id: number; secret: string; onClose: () => void }) {
  return (
    <Dialog title={`Webhook ${id} is added`} onClose={onClose} footer={<Button look="primary" onClick={onClose}>I have kept it</Button>}>
      <div className="flex flex-col gap-3">
        <Notice tone="warn">This is the only time that its secret is shown. Messages are signed with it (Standard Webhooks): keep it where they are received.</Notice>
        <div className="flex items-center gap-2 rounded-md border bg-sunken p-3">
          <code data-secret className="min-w-0 grow font-mono text-xs wrap-anywhere">
            {secret}
          </code>
          <Copy text={secret} label="Copy the secret" />
        </div>
      </div>
    </Dialog>
  );
}
