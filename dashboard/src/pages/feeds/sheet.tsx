/** One feed, in a sheet beside the list. All that comes from outside is text here. */

import { type ItemOf, useAct, useApi, usePages } from "@/api";
import { useMe } from "@/app/session";
import { Button, Dialog, Duration, Empty, ErrorPanel, Facts, Link, Section, Skeleton, StateBadge, Table, Time } from "@/ui";

type Entry = ItemOf<"/api/admin/feeds/entries">;

export function FeedSheet({ id, onClose }: { id: number; onClose: () => void }) {
  const { email } = useMe();
  const found = useApi("/api/admin/feeds/{id}", { path: { id } }, { everyMs: 10_000, live: ["schedules"], keep: false });
  const entries = usePages("/api/admin/feeds/{id}/entries", { path: { id } }, { everyMs: 15_000, live: [] });
  const fetch = useAct("post", "/api/admin/feeds/{id}/fetch", { done: "It is fetched as soon as a worker has time" });
  const leave = useAct("delete", "/api/admin/feeds/{id}", { done: "No longer subscribed" });
  const feed = found.data;
  return (
    <Dialog title={feed ? feed.title || feed.url : "Feed"} side onClose={onClose}>
      {!feed && (found.error ? <ErrorPanel problem={found.error} onRetry={() => void found.refetch()} /> : <Skeleton lines={6} />)}
      {feed && (
        <div className="flex flex-col gap-4">
          <div className="flex flex-wrap gap-2">
            <Button small icon="retry" op="schedules.change" busy={fetch.isPending} disabledWhy={feed.next_fetch_at === null && "It is fetched no more"} onClick={() => fetch.mutate({ path: { id } })}>
              Fetch now
            </Button>
          </div>
          <Facts
            items={[
              ["Health", <StateBadge state={feed.health} />],
              feed.last_error !== null && feed.health !== "ok" && ["Last error", feed.last_error],
              feed.consecutive_failures > 0 && ["In a row", `${feed.consecutive_failures} failures`],
              ["Address", feed.url.endsWith("?…") ? feed.url : <Link href={feed.url}>{feed.url}</Link>],
              feed.site_url !== null && ["Site", <Link href={feed.site_url}>{feed.site_url}</Link>],
              ["Next fetch", <Time at={feed.next_fetch_at} empty="never" />],
              ["Fetched every", <Duration of={feed.interval_s} />],
              ["Last fetch", <><Time at={feed.last_fetched_at} empty="never" />{feed.last_status ? `, answered ${feed.last_status}` : ""}</>],
              ["Last that went well", <Time at={feed.last_success_at} empty="never" />],
              ["Last with new entries", <Time at={feed.last_new_at} empty="never" />],
              feed.websub !== null && ["WebSub", <>{feed.websub}{feed.websub_until && <> until <Time at={feed.websub_until} absolute /></>}</>],
              feed.addresses.length > 0 && ["Moved from", feed.addresses.join(", ")],
              ["Schedule", <Link href={`/schedules?show=${encodeURIComponent(feed.schedule)}`}>{feed.schedule}</Link>],
            ]}
          />
          <Section title="Readers" aside={<span className="text-xs text-muted">{feed.subscribers}</span>}>
            <ul className="flex flex-col">
              {feed.subscriptions.map((each) => (
                <li key={each.subscriber} className="flex items-center gap-2 border-b py-1">
                  <span className="min-w-0 grow truncate">
                    {each.subscriber}
                    {each.subscriber === email && <span className="text-muted"> (you)</span>}
                  </span>
                  <Time at={each.created_at} className="text-muted" />
                  <Button small op="schedules.change" aria-label={`Unsubscribe ${each.subscriber}`} onClick={() => leave.mutate({ path: { id }, query: { subscriber: each.subscriber } })}>
                    Unsubscribe
                  </Button>
                </li>
              ))}
            </ul>
            {feed.subscribers > feed.subscriptions.length && <p className="pt-1 text-xs text-muted">and {feed.subscribers - feed.subscriptions.length} more</p>}
          </Section>
          <Section title="Entries">
            <Table
              label="Entries"
              list={entries}
              rowKey={(row: Entry) => String(row.id)}
              keyboard={false}
              columns={[
                {
                  key: "title",
                  title: "Title",
                  truncate: true,
                  cell: (row) => (
                    <>
                      {row.url ? (
                        <Link href={row.url} rel="noopener noreferrer nofollow">
                          {row.title || row.url}
                        </Link>
                      ) : (
                        row.title
                      )}
                      {row.text && <span className="block truncate text-xs text-muted">{row.text}</span>}
                    </>
                  ),
                },
                { key: "at", title: "Published", width: "7rem", align: "right", cell: (row) => <Time at={row.published_at ?? row.seen_at} /> },
              ]}
              empty={<Empty title="No entries yet" icon="feeds" />}
            />
          </Section>
        </div>
      )}
    </Dialog>
  );
}
