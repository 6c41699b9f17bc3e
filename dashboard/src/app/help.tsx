/** All keys that do something here. */

import { allKeys } from "@/lib/keys";
import { Kbd } from "@/ui/badge";
import { Dialog } from "@/ui/dialog";

const NAMES: Record<string, string> = { Escape: "esc", Enter: "↵" };

export function Help({ onClose }: { onClose: () => void }) {
  const order = ["Everywhere", "This page", "Lists"];
  const place = (group: string) => (order.indexOf(group) + 1 || order.length + 1) as number;
  const groups = [...Map.groupBy(allKeys(), (key) => key.group ?? "This page")].toSorted(([a], [b]) => place(a) - place(b));
  return (
    <Dialog title="Keys" onClose={onClose} width="lg">
      <div className="gap-x-8 sm:columns-2">
        {groups.map(([group, keys]) => (
          <section key={group} className="mb-5 break-inside-avoid">
            <h3 className="mb-1.5 text-xs font-medium text-muted">{group}</h3>
            <dl className="flex flex-col gap-1">
              {keys.map((key) => (
                <div key={key.keys} className="flex items-center gap-3">
                  <dt className="flex w-14 gap-1">
                    {key.keys.split(" ").map((each) => (
                      <Kbd key={each}>{NAMES[each] ?? each}</Kbd>
                    ))}
                  </dt>
                  <dd>{key.does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p className="border-t pt-3 text-xs text-muted">Keys are off while you type. In a list, Enter opens a row, space selects it.</p>
    </Dialog>
  );
}
