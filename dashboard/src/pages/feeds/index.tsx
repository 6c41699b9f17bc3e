/** Feeds that are fetched: how they do, and when each is fetched next. */

import { useState } from "react";
import { type ItemOf, useAct, useApi, usePages } from "@/api";
import { cx } from "@/lib/classes";
import { useUrlState } from "@/lib/urlState";
import { Button, type Column, Count, Duration, Empty, Link, Notice, Page, SearchBox, StateBadge, Table, Time } from "@/ui";
import { ImportDialog, SubscribeDialog } from "./dialogs";
import { FeedSheet } from "./sheet";

type Feed = ItemOf<"/api/admin/feeds">;

const HEALTHS = ["ok", "failing", "new", "gone", "off"] as const;
type Health = (typeof HEALTHS)[number];
const MEANS: Record<Health, string> = {
  ok: "the last fetch went well",
  failing: "the last fetches went wrong; it is tried again",
  new: "not fetched yet",
  gone: "its server says that it is gone for good",
  off: "nobody is subscribed to it any more",
};
const LATE_S = 300;

const LESSON = `app = Rota()
app.include("rota.apps.feeds")`;

function columns(onFetch: (feed: Feed) => void, busy: number | null): Column<Feed>[] {
  return [
    { key: "health", title: "Health", width: "6rem", cell: (row) => <StateBadge state={row.health} title={MEANS[row.health]} /> },
    {
      key: "title",
      title: "Feed",
      truncate: true,
      cell: (row) => (
        <>
          <Link href={`/feeds?feed=${row.id}`}>{row.title || row.url}</Link> <span className="text-xs text-muted">{row.host}</span>
          {row.health === "failing" && row.last_error && <span className="block truncate text-xs text-bad">{row.last_error}</span>}
        </>
      ),
    },
    { key: "next", title: "Next fetch", width: "7rem", align: "right", cell: (row) => <Time at={row.next_fetch_at} empty="never" /> },
    { key: "every", title: "Every", width: "6rem", align: "right", hideBelow: "lg", cell: (row) => <Duration of={row.interval_s} /> },
    { key: "last", title: "Last fetch", width: "7rem", align: "right", hideBelow: "md", cell: (row) => <Time at={row.last_fetched_at} empty="never" /> },
    { key: "fresh", title: "Last new", width: "7rem", align: "right", hideBelow: "lg", cell: (row) => <Time at={row.last_new_at} empty="never" /> },
    { key: "entries", title: "Entries", width: "5rem", align: "right", hideBelow: "md", cell: (row) => <Count value={row.entries} /> },
    { key: "readers", title: "Readers", width: "5rem", align: "right", hideBelow: "md", cell: (row) => <Count value={row.subscribers} /> },
    {
      key: "act",
      title: <span className="sr-only">Actions</span>,
      width: "1%",
      align: "right",
      cell: (row) => (
        <Button small collapse icon="retry" op="schedules.change" busy={busy === row.id} disabledWhy={row.next_fetch_at === null && "It is fetched no more"} aria-label={`Fetch ${row.title || row.url} now`} onClick={() => onFetch(row)}>
          Fetch
        </Button>
      ),
    },
  ];
}

export default function Feeds() {
  const [view, setView] = useUrlState({ q: "", health: "", feed: "", add: false });
  const [importing, setImporting] = useState(false);
  const health = HEALTHS.find((each) => each === view.health);
  const list = usePages("/api/admin/feeds", { query: { q: view.q, health } }, { everyMs: 10_000, live: ["schedules"] });
  const summary = useApi("/api/admin/feeds/summary", {}, { everyMs: 10_000, live: ["schedules"] });
  const fetch = useAct("post", "/api/admin/feeds/{id}/fetch", { done: "It is fetched as soon as a worker has time" });
  if (list.error?.status === 404) {
    return (
      <Page title="Feeds">
        <Empty title="This application has no feeds" icon="feeds" snippet={LESSON}>
          Include them, and feeds are fetched as often as they change, and no more often.
        </Empty>
      </Page>
    );
  }
  const late = summary.data?.late_s ?? 0;
  const filtered = view.q !== "" || health !== undefined;
  return (
    <Page
      title="Feeds"
      actions={
        <>
          <Button icon="plus" op="schedules.change" onClick={() => setImporting(true)}>
            Import
          </Button>
          <Button look="primary" icon="plus" op="schedules.change" onClick={() => setView({ add: true }, { replace: true })}>
            Subscribe
          </Button>
        </>
      }
    >
      {late > LATE_S && (
        <Notice tone="warn">
          The most overdue feed is <Duration of={late} /> late: there may be too few workers.
        </Notice>
      )}
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="w-full sm:w-80">
          <SearchBox label="Search feeds" placeholder="address or title" value={view.q} onChange={(q) => setView({ q })} />
        </div>
        <div role="group" aria-label="Health" className="flex flex-wrap gap-1.5">
          {HEALTHS.map((each) => {
            const count = summary.data?.[each];
            const on = health === each;
            return (
              <button key={each} type="button" aria-pressed={on} title={MEANS[each]} onClick={() => setView({ health: on ? "" : each })} className={cx("flex items-center gap-1.5 rounded-md border px-1.5 py-0.5", on ? "border-accent bg-accent-soft" : "hover:bg-hover")}>
                <StateBadge state={each} /> <Count value={count?.count} capped={count?.capped} />
              </button>
            );
          })}
        </div>
      </div>
      <Table
        label="Feeds"
        list={list}
        columns={columns((feed) => fetch.mutate({ path: { id: feed.id } }), fetch.isPending ? (fetch.variables.path?.id ?? null) : null)}
        rowKey={(row) => String(row.id)}
        onOpen={(row) => setView({ feed: String(row.id) })}
        current={view.feed}
        empty={
          filtered ? (
            <Empty title="No feed fits" icon="search" />
          ) : (
            <Empty title="No feeds yet" icon="feeds" snippet="rota feeds add https://example.org/feed.xml" waiting="waiting for the first feed…">
              Subscribe to one here, from the command line, or import a list (OPML).
            </Empty>
          )
        }
      />
      {view.feed && <FeedSheet id={Number(view.feed)} onClose={() => setView({ feed: "" })} />}
      {view.add && <SubscribeDialog onClose={() => setView({ add: false }, { replace: true })} />}
      {importing && <ImportDialog onClose={() => setImporting(false)} />}
    </Page>
  );
}
