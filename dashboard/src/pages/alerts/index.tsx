/** What somebody should look at, and who is told of it. */

import { useRights } from "@/lib/rights";
import { useUrlState } from "@/lib/urlState";
import { Empty, Page, Tabs } from "@/ui";
import { AlertList } from "./list";
import { Deliveries, Webhooks } from "./webhooks";

export default function Alerts() {
  const [view, setView] = useUrlState({ tab: "alerts" });
  const { can, why } = useRights();
  const webhooks = (content: () => React.ReactNode) => () =>
    can("webhooks.read") ? (
      content()
    ) : (
      <Empty title="You may not see webhooks" icon="lock">
        {why("webhooks.read")}
      </Empty>
    );
  return (
    <Page title="Alerts">
      <Tabs
        label="Alerts and webhooks"
        value={view.tab}
        onChange={(tab) => setView({ tab })}
        tabs={[
          { id: "alerts", label: "Alerts", content: () => <AlertList /> },
          { id: "webhooks", label: "Webhooks", content: webhooks(() => <Webhooks />) },
          { id: "deliveries", label: "Deliveries", content: webhooks(() => <Deliveries />) },
        ]}
      />
    </Page>
  );
}
