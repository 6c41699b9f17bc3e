/** Copy a job as the command that makes another one like it. */

import { useState } from "react";
import { toJson } from "@/lib/json";
import { toast } from "@/lib/toasts";
import { Dialog, Menu, Notice, Snippet, Tabs } from "@/ui";
import { conceal } from "./secrets";
import { type Enqueueable, LANGUAGES, type Language, snippetOf } from "./snippets";

const NAMES: Record<Language, string> = { Python: "Python", "command line": "Command line", curl: "curl", SQL: "SQL" };

export function CopyMenu({ job, small }: { job: Enqueueable; small?: boolean }) {
  const [shown, setShown] = useState<Language | null>(null);
  const copy = async (words: string, text: string, hidden: number, fallback: Language) => {
    try {
      await navigator.clipboard.writeText(text);
      toast(hidden ? `Copied as ${words}: fill in the secrets` : `Copied as ${words}`);
    } catch {
      setShown(fallback); // pages without https have no clipboard
    }
  };
  return (
    <>
      <Menu
        label="Copy as"
        icon="copy"
        small={small}
        items={[
          ...LANGUAGES.map((language) => ({
            label: NAMES[language],
            onSelect: () => {
              const { code, hidden } = snippetOf(job, language);
              void copy(NAMES[language], code, hidden, language);
            },
          })),
          {
            label: "Payload",
            onSelect: () => {
              const { value, sealed, named } = conceal(job.payload);
              void copy("JSON", toJson(value, 2), sealed + named, "Python");
            },
          },
          "-",
          { label: "Show…", onSelect: () => setShown("Python") },
        ]}
      />
      {shown && <CopyDialog job={job} language={shown} onChange={setShown} onClose={() => setShown(null)} />}
    </>
  );
}

function CopyDialog({ job, language, onChange, onClose }: { job: Enqueueable; language: Language; onChange: (language: Language) => void; onClose: () => void }) {
  return (
    <Dialog title={`Another ${job.task}`} width="lg" onClose={onClose}>
      <Tabs
        label="Copy as"
        value={language}
        onChange={(id) => onChange(id as Language)}
        tabs={LANGUAGES.map((each) => ({
          id: each,
          label: NAMES[each],
          content: () => {
            const { code, hidden } = snippetOf(job, each);
            return (
              <div className="flex flex-col gap-3">
                {hidden > 0 && <Notice tone="warn">{hidden === 1 ? "One secret is" : `${hidden} secrets are`} left out, where [hidden] stands: fill {hidden === 1 ? "it" : "them"} in.</Notice>}
                <Snippet code={code} label={`Copy as ${NAMES[each]}`} />
                {each === "curl" && <p className="text-xs text-muted">ROTA_TOKEN is a token of yours: Settings, Tokens.</p>}
              </div>
            );
          },
        }))}
      />
    </Dialog>
  );
}
