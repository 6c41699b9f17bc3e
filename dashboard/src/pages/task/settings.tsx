/** The policies of a task: what holds, what code says, and how operators change it. */

import { useState } from "react";
import { useAct, useApiWithEtag } from "@/api";
import type { TaskRecord, TaskView } from "@/pages/tasks/parts";
import { Badge, Button, Confirm, Conflict, Dialog, ErrorPanel, Input, Skeleton, Textarea, useVersion } from "@/ui";
import { SETTINGS, type Setting, bodyOf, sameSetting, settingText, whyFixed, wrongSetting } from "./settings-fields";

/** All settings in a table; those that operators have set can be given back to code. */
export function Settings({ view, onEdit }: { view: TaskView; onEdit: () => void }) {
  const { record } = view;
  const [resetting, setResetting] = useState<Setting | "all" | null>(null);
  const reset = useAct("delete", "/api/admin/tasks/{name}/settings", { done: "Code decides again", toastErrors: false });
  const overrides = record.overrides ?? {};
  const changed = Object.keys(overrides).length;
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <p className="min-w-0 grow text-muted">What operators set holds over what code says, over deploys too, until it is reset.</p>
        <Button icon="retry" op="tasks.change" disabledWhy={changed === 0 && "Everything is as code says"} onClick={() => setResetting("all")}>
          Reset all
        </Button>
        <Button look="primary" icon="edit" op="tasks.change" onClick={onEdit}>
          Edit
        </Button>
      </div>
      <div className="overflow-x-auto">
        <table aria-label="Settings" className="w-full border-collapse">
          <thead>
            <tr className="border-b text-left text-xs text-muted">
              <th scope="col" className="px-2 py-1.5 font-medium">Setting</th>
              <th scope="col" className="px-2 py-1.5 font-medium">Holds</th>
              <th scope="col" className="px-2 py-1.5 font-medium">Code says</th>
              <th scope="col" className="px-2 py-1.5"><span className="sr-only">Reset</span></th>
            </tr>
          </thead>
          <tbody>
            {SETTINGS.map((setting) => {
              const own = setting.override in overrides;
              const code = record.definition ? settingText(record.definition, setting) : "";
              return (
                <tr key={setting.name} className="border-b align-top">
                  <th scope="row" className="px-2 py-1.5 text-left font-normal">
                    {setting.title} <code className="ml-1 font-mono text-2xs whitespace-nowrap text-faint">{setting.name}</code>
                  </th>
                  <td className="px-2 py-1.5">
                    <Value text={settingText(record, setting)} />{" "}
                    {own && (
                      <Badge tone="accent" icon="edit">
                        set by operators
                      </Badge>
                    )}
                  </td>
                  <td className="px-2 py-1.5 text-muted">{record.definition ? <Value text={code} /> : "–"}</td>
                  <td className="px-2 py-1 text-right">
                    {own && (
                      <Button small op="tasks.change" aria-label={`Reset ${setting.name}`} onClick={() => setResetting(setting)}>
                        Reset
                      </Button>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {resetting && (
        <Confirm
          title={resetting === "all" ? `Reset ${record.name}` : `Reset ${resetting.name}`}
          action="Reset"
          onClose={() => setResetting(null)}
          onConfirm={() => reset.mutateAsync({ path: { name: record.name }, query: resetting === "all" ? {} : { setting: [resetting.name] } })}
        >
          {resetting === "all" ? `Code decides again over all ${changed} settings that operators have set.` : `It becomes what code says: ${(record.definition && settingText(record.definition, resetting)) || "none"}.`}
        </Confirm>
      )}
    </div>
  );
}

function Value({ text }: { text: string }) {
  if (text === "") return <span className="text-faint">none</span>;
  return <code className="font-mono text-xs wrap-anywhere whitespace-pre-wrap">{text}</code>;
}

const textsOf = (record: TaskRecord): Record<string, string> => Object.fromEntries(SETTINGS.map((setting) => [setting.name, settingText(record, setting)]));

export function SettingsDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const found = useApiWithEtag("/api/admin/tasks/{name}", { path: { name } });
  const { base, latest, changed, reload } = useVersion(found.data);
  const [edits, setEdits] = useState<Record<string, string>>({});
  const save = useAct("put", "/api/admin/tasks/{name}/settings", { done: `${name} is set`, toastErrors: false });
  const record = base?.data.record;
  const before = record ? textsOf(record) : {};
  const text = (setting: Setting) => edits[setting.name] ?? before[setting.name] ?? "";
  const same = (setting: Setting) => sameSetting(setting, before[setting.name] ?? "", text(setting));
  const wrong = (setting: Setting) => (same(setting) ? undefined : wrongSetting(setting, text(setting)));
  const said = (setting: Setting) => save.error?.field(setting.name) ?? save.error?.field(setting.override);
  const stopped = !record ? "It is not there yet" : changed ? "Somebody has changed it meanwhile: reload it first" : SETTINGS.some(wrong) ? "Mend what is marked first" : SETTINGS.every(same) && "Nothing has changed";
  const startAgain = () => {
    reload();
    save.reset();
    setEdits({});
  };
  return (
    <Dialog
      title={`Settings of ${name}`}
      width="lg"
      onClose={onClose}
      onSubmit={() => !stopped && save.mutate({ path: { name }, body: bodyOf(before, { ...before, ...edits }), etag: base?.etag }, { onSuccess: onClose })}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" op="tasks.change" busy={save.isPending} disabledWhy={stopped}>
            Save
          </Button>
        </>
      }
    >
      {!record || !latest ? (
        found.error ? <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} /> : <Skeleton lines={8} />
      ) : (
        <div className="flex flex-col gap-4">
          <div className="grid gap-x-4 gap-y-3 sm:grid-cols-2">
            {SETTINGS.map((setting, index) => {
              const fixed = whyFixed(record, setting);
              const common = { label: setting.title, hint: fixed ?? setting.hint, value: text(setting), error: wrong(setting) ?? said(setting), disabled: fixed !== undefined, autoFocus: index === 0, onChange: (given: string) => setEdits({ ...edits, [setting.name]: given }) };
              return setting.kind === "json" ? <Textarea key={setting.name} {...common} mono rows={5} className="sm:col-span-2" /> : <Input key={setting.name} {...common} mono={setting.kind !== "count"} inputMode={setting.kind === "count" ? "numeric" : undefined} />;
            })}
          </div>
          {changed ? (
            <Conflict what={`The task ${name}`} noun="tasks" target={name} before={{ ...before, enabled: record.enabled }} after={{ ...textsOf(latest.data.record), enabled: latest.data.record.enabled }} onReload={startAgain} />
          ) : (
            save.error && !SETTINGS.some(said) && <ErrorPanel problem={save.error} compact />
          )}
        </div>
      )}
    </Dialog>
  );
}
