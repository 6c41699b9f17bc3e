/** Oneself, and for admins everybody else. */

import type { ReactNode } from "react";
import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { Empty, Page, Tabs } from "@/ui";
import { Audit } from "./audit";
import { Session } from "./session";
import { Tokens } from "./tokens";
import { Users } from "./users";

export default function Settings() {
  const [view, setView] = useUrlState({ tab: "you" });
  return (
    <Page title="Settings">
      <Tabs
        label="Settings"
        value={view.tab}
        onChange={(tab) => setView({ tab })}
        tabs={[
          { id: "you", label: "You", content: () => <Session /> },
          { id: "tokens", label: "Tokens", content: () => <Tokens /> },
          { id: "users", label: "Users", content: () => <Allowed op="users.read" title="You may not see users"><Users /></Allowed> },
          { id: "audit", label: "Audit", content: () => <Allowed op="audit.read" title="You may not see the audit"><Audit /></Allowed> },
        ]}
      />
    </Page>
  );
}

function Allowed({ op, title, children }: { op: string; title: string; children: ReactNode }) {
  const { can, why } = useRights();
  if (can(op)) return children;
  return (
    <Empty title={title} icon="lock">
      {why(op)}
    </Empty>
  );
}
