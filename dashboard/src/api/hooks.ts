/** Data for pages: `useApi` for one answer, `usePages` for a list, `useAct` for a change. */

import { type UseQueryResult, hashKey, keepPreviousData, useInfiniteQuery, useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { toast } from "@/lib/toasts";
import { type Given, send } from "./client";
import { type Kind, kindsOf } from "./live";
import type { Problem } from "./problem";
import type { AnswerOf, BodyOf, ItemOf, ListPath, Method, Params, PathOf } from "./types";

export interface ApiOptions {
  /** Do not ask as long as this is false. */
  enabled?: boolean;
  /** Ask again so often; what the stream tells of is asked for anyway. */
  everyMs?: number;
  /** What changes make it ask again; by itself as the path says, [] for never. */
  live?: Kind[];
  /** For the stream's sake it is asked for at most so often; left out: as often as the stream allows. */
  calmMs?: number;
  /** Whether the answer before stays while another one loads; true unless said otherwise. */
  keep?: boolean;
}

/** One answer of the API, kept current by the stream. `error` is a Problem; `data` stays while it loads anew. */
export function useApi<P extends PathOf<"get">>(
  path: P,
  params: Params<"get", P> = {} as never,
  options: ApiOptions = {},
): UseQueryResult<AnswerOf<"get", P>, Problem> {
  return useQuery<AnswerOf<"get", P>, Problem>({
    queryKey: [path, params],
    queryFn: async ({ signal }) => (await send("get", path, { ...(params as Given), signal })).body as AnswerOf<"get", P>,
    enabled: options.enabled ?? true,
    refetchInterval: options.everyMs,
    placeholderData: options.keep === false ? undefined : keepPreviousData,
    meta: { live: options.live ?? kindsOf(path), calmMs: options.calmMs },
  });
}

/** The same with the ETag of the answer, for an edit that must not overwrite somebody else's. */
export function useApiWithEtag<P extends PathOf<"get">>(
  path: P,
  params: Params<"get", P> = {} as never,
  options: ApiOptions = {},
): UseQueryResult<{ data: AnswerOf<"get", P>; etag: string | undefined }, Problem> {
  return useQuery<{ data: AnswerOf<"get", P>; etag: string | undefined }, Problem>({
    queryKey: [path, params, "etag"],
    queryFn: async ({ signal }) => {
      const { body, headers } = await send("get", path, { ...(params as Given), signal });
      return { data: body as AnswerOf<"get", P>, etag: headers.get("etag") ?? undefined };
    },
    enabled: options.enabled ?? true,
    meta: { live: options.live ?? kindsOf(path) },
  });
}

/** The rows that can be seen: places of the first and the last of them, and the rows themselves. */
export interface Seen<T> {
  from: number;
  to: number;
  rows: T[];
}

/** How rows are asked for by their keys, whatever page they are on by now. */
export interface ByKey<T> {
  key: (row: T) => string;
  query: (keys: string[]) => Record<string, unknown>;
}

/** A page of a list as it is on the server now. */
export interface Part<T> {
  items: T[];
  next: string | null;
}

/** A list as `Table` takes it. */
export interface ListState<T> {
  rows: T[];
  /** Nothing has come yet. */
  loading: boolean;
  /** Something is being asked for, what is there stays. */
  fetching: boolean;
  error: Problem | null;
  hasMore: boolean;
  loadMore: () => void;
  loadingMore: boolean;
  /** Counted with `count: true` in the query. */
  count: { count: number; capped: boolean } | null;
  refetch: () => void;
  updatedAt: number;
  /** Which list the rows are of: another search is another list. */
  of: string;
  /** While it is held: the first page and those in view, as they are now; else null. */
  parts: Part<T>[] | null;
  /** And rows in view that are not on the first page any more. */
  current: T[];
  /** Leaves the rows as they are, and keeps only what can be seen current; null: keeps all of it current again. */
  hold: (seen: Seen<T> | null) => void;
  /** Makes the newest rows part of a list that is held. */
  show: () => unknown;
}

interface Page<T> extends Part<T> {
  count?: { count: number; capped: boolean } | null;
}

const FILL = 20; // rows below which the next page is asked for by itself: a search answers with short pages
const TURNS = 8;
const HELD_MS = 2_500; // between two looks at what is held
const KEPT = 2; // pages kept of a list that is no longer held; later pages load again on scroll

/** A list by keyset: `rows` of all pages so far, `loadMore` for the next. Short pages of a search are filled up by themselves. */
export function usePages<P extends ListPath>(path: P, params: Params<"get", P> = {} as never, options: ApiOptions & { byKey?: ByKey<ItemOf<P>> } = {}): ListState<ItemOf<P>> {
  type T = ItemOf<P>;
  const { byKey } = options;
  const client = useQueryClient();
  const [seen, setSeen] = useState<Seen<T> | null>(null);
  const ask = async (cursor: string | null, signal: AbortSignal) => {
    const given = params as Given;
    // Counting is for the first page only: it is the same for all of them.
    const query = { ...given.query, cursor, ...(cursor ? { count: undefined } : {}) };
    return (await send("get", path, { ...given, query, signal })).body as Page<T>;
  };
  const live = options.live ?? kindsOf(path);
  const queryKey = [path, params, "pages"];
  const key = hashKey(queryKey);
  const found = useInfiniteQuery<Page<T>, Problem, { pages: Page<T>[]; pageParams: (string | null)[] }, unknown[], string | null>({
    queryKey,
    queryFn: ({ pageParam, signal }) => ask(pageParam, signal),
    initialPageParam: null,
    getNextPageParam: (last) => last.next,
    enabled: options.enabled ?? true,
    refetchInterval: seen ? false : options.everyMs,
    placeholderData: options.keep === false ? undefined : keepPreviousData,
    meta: { live: seen ? [] : live },
  });
  const { fetchNextPage, hasNextPage, isFetching, isPlaceholderData } = found;
  const of = useRef(key);
  if (!isPlaceholderData) of.current = key;
  const pages = found.data?.pages;
  const cursors = found.data?.pageParams;
  const indexes = isPlaceholderData ? [] : pagesIn(pages, seen, byKey !== undefined);
  const watched = useQueries({
    queries: indexes.map((index) => ({
      queryKey: [path, params, "part", cursors?.[index] ?? null],
      queryFn: ({ signal }: { signal: AbortSignal }) => ask(cursors?.[index] ?? null, signal),
      initialData: pages?.[index],
      staleTime: Number.POSITIVE_INFINITY,
      gcTime: 0, // the next time it begins with what the list has then
      refetchInterval: options.everyMs,
      meta: { live, calmMs: HELD_MS },
    })),
  });
  const known = watched.flatMap((part) => part.data ?? []);
  const identity = useRef(known);
  if (known.length !== identity.current.length || known.some((part, index) => part !== identity.current[index])) identity.current = known;
  const parts = known.length > 0 ? identity.current : null;
  const keys = byKey && parts ? missingFrom(parts, seen, byKey.key) : [];
  const others = useQuery<T[], Problem>({
    queryKey: [path, "rows", keys],
    queryFn: async ({ signal }) => ((await send("get", path, { query: byKey!.query(keys), signal })).body as Page<T>).items,
    enabled: keys.length > 0,
    placeholderData: keepPreviousData,
    gcTime: 0,
    meta: { live, calmMs: HELD_MS },
  });
  const rows = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages]);
  const wants = hasNextPage && !isFetching && !isPlaceholderData && !found.isError && rows.length < FILL && (pages?.length ?? 0) < TURNS;
  useEffect(() => {
    if (wants) void fetchNextPage();
  }, [wants, fetchNextPage]);

  const latest = useRef({ queryKey, pages, cursors, parts, indexes, refetch: found.refetch });
  latest.current = { queryKey, pages, cursors, parts, indexes, refetch: found.refetch };
  const show = useCallback(async () => {
    const { queryKey, pages, cursors, parts, indexes, refetch } = latest.current;
    if (!parts || !pages || !cursors) return;
    const newest = pages.map((page, index) => parts[indexes.indexOf(index)] ?? page);
    if (newest.every((page, index) => page === pages[index])) return;
    const kept = pages.length > KEPT ? 1 : pages.length;
    client.setQueryData(queryKey, { pages: newest.slice(0, kept), pageParams: cursors.slice(0, kept) });
    if (kept > 1) await refetch(); // the second page begins where the first one ends now
  }, [client]);
  const hold = useCallback(
    (next: Seen<T> | null) => {
      if (next === null) void show();
      setSeen(next);
    },
    [show],
  );
  return {
    rows,
    loading: found.isPending && (options.enabled ?? true),
    fetching: isFetching,
    error: found.error,
    hasMore: hasNextPage,
    loadMore: () => void fetchNextPage(),
    loadingMore: found.isFetchingNextPage,
    count: pages?.[0]?.count ?? null,
    refetch: () => void found.refetch(),
    updatedAt: found.dataUpdatedAt,
    of: of.current,
    parts,
    current: (keys.length > 0 && others.data) || EMPTY,
    hold,
    show,
  };
}

const EMPTY: never[] = [];

/** Keys of rows in view that the parts do not have. */
function missingFrom<T>(parts: Part<T>[], seen: Seen<T> | null, key: (row: T) => string): string[] {
  const known = new Set(parts.flatMap((part) => part.items.map(key)));
  return seen?.rows.map(key).filter((each) => !known.has(each)) ?? [];
}

/** The first page, and unless only that is wanted those with rows that can be seen. */
function pagesIn(pages: Page<unknown>[] | undefined, seen: Seen<unknown> | null, onlyFirst: boolean): number[] {
  if (!pages || !seen) return [];
  if (onlyFirst) return pages.length > 0 ? [0] : [];
  const found: number[] = [];
  let first = 0;
  pages.forEach((page, index) => {
    const last = first + page.items.length - 1;
    if (index === 0 || (first <= seen.to && last >= seen.from)) found.push(index);
    first = last + 1;
  });
  return found;
}

const nothing = () => {};

/** What `useApi` gave, as a list for `Table`: `listOf(query, (data) => data.items)`. */
export function listOf<D, T>(query: UseQueryResult<D, Problem>, pick: (data: D) => T[]): ListState<T> {
  return {
    rows: query.data === undefined ? [] : pick(query.data),
    loading: query.isPending,
    fetching: query.isFetching,
    error: query.error,
    hasMore: false,
    loadMore: nothing,
    loadingMore: false,
    count: null,
    refetch: () => void query.refetch(),
    updatedAt: query.dataUpdatedAt,
    of: "",
    parts: null,
    current: EMPTY,
    hold: nothing,
    show: nothing,
  };
}

export interface ActOptions<A, G> {
  /** What to say when it is done. */
  done?: string | ((answer: A, given: G) => string);
  /** Whether an error is said by a toast; false where the dialog shows it. */
  toastErrors?: boolean;
}

/** A change: `const retry = useAct("post", "/api/admin/jobs/{id}/retry", { done: "Retried" }); retry.mutate({ path: { id } })`.
 * Everything on the page is asked for again when it is done. */
export function useAct<M extends Exclude<Method, "get">, P extends PathOf<M>>(
  method: M,
  path: P,
  options: ActOptions<AnswerOf<M, P>, ActGiven<M, P>> = {},
) {
  const client = useQueryClient();
  return useMutation<AnswerOf<M, P>, Problem, ActGiven<M, P>>({
    mutationFn: async (given) => (await send(method, path, given as Given)).body as AnswerOf<M, P>,
    onSuccess: (answer, given) => {
      const words = typeof options.done === "function" ? options.done(answer, given) : options.done;
      if (words) toast(words);
      void client.invalidateQueries();
    },
    onError: (problem) => {
      if (options.toastErrors !== false) toast(problem.message, { kind: "bad" });
      if (problem.status === 404 || problem.status === 409 || problem.status === 412) void client.invalidateQueries();
    },
  });
}

/** What a change is given. */
export type ActGiven<M extends Method, P extends PathOf<M>> = Params<M, P> & { body?: BodyOf<M, P>; etag?: string };
