/** Who one is here, and what one may. */

import { useMe, useSignOut } from "@/app/session";
import { roleWords } from "@/lib/rights";
import { absoluteUrl } from "@/lib/root";
import { zone } from "@/lib/format";
import { type Theme, useTheme } from "@/lib/theme";
import { Badge, Button, Facts, Id, Section, Select } from "@/ui";

const VIA: Record<string, string> = { session: "by a mailed link, in this browser", jwt: "by a JWT" };
const THEMES = [
  { value: "system", label: "As the system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

export function Session() {
  const me = useMe();
  const signOut = useSignOut();
  const [theme, setTheme] = useTheme();
  return (
    <div className="flex max-w-3xl flex-col gap-6">
      <Facts
        items={[
          ["Address", me.email],
          ["Role", roleWords(me.role)],
          ["Account", <Id key="id" id={me.account_id} whole copy />],
          ["Signed in", VIA[me.via] ?? me.via],
          me.scopes !== null && ["Only for", me.scopes.join(", ")],
          ["Application", me.app],
          ["Environment", me.environment],
          ["Server", <code key="at" className="font-mono text-xs">{absoluteUrl("/")}</code>],
          ["Version of Rota", me.version],
          ["Your time zone", zone],
        ]}
      />
      <div>
        <Button icon="out" onClick={() => void signOut()}>
          Sign out
        </Button>
      </div>
      <Section title="Look">
        <Select label="Theme" value={theme} options={THEMES} onChange={(value) => setTheme(value as Theme)} className="w-48" />
      </Section>
      <Section title="What you may do">
        {me.may.length === 0 ? (
          <p className="text-muted">You have HTTP jobs and tokens of your own. Everything else is for other roles: ask an admin.</p>
        ) : (
          <ul className="flex flex-wrap gap-1.5" aria-label="Your rights">
            {me.may.map((each) => (
              <li key={each}>
                <Badge>{each}</Badge>
              </li>
            ))}
          </ul>
        )}
      </Section>
    </div>
  );
}
