/** Data for pages: `useApi` for one answer, `usePages` for a list, `useAct` for a change. */

import { type UseQueryResult, keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
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
    meta: { live: options.live ?? kindsOf(path) },
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
}

interface Page<T> {
  items: T[];
  next: string | null;
  count?: { count: number; capped: boolean } | null;
}

const FILL = 20; // rows below which the next page is asked for by itself: a search answers with short pages
const TURNS = 8;

/** A list by keyset: `rows` of all pages so far, `loadMore` for the next. Short pages of a search are filled up by themselves. */
export function usePages<P extends ListPath>(path: P, params: Params<"get", P> = {} as never, options: ApiOptions = {}): ListState<ItemOf<P>> {
  type T = ItemOf<P>;
  const found = useInfiniteQuery<Page<T>, Problem, { pages: Page<T>[] }, unknown[], string | null>({
    queryKey: [path, params, "pages"],
    queryFn: async ({ pageParam, signal }) => {
      const given = params as Given;
      // Counting is for the first page only: it is the same for all of them.
      const query = { ...given.query, cursor: pageParam, ...(pageParam ? { count: undefined } : {}) };
      return (await send("get", path, { ...given, query, signal })).body as Page<T>;
    },
    initialPageParam: null,
    getNextPageParam: (last) => last.next,
    enabled: options.enabled ?? true,
    refetchInterval: options.everyMs,
    placeholderData: options.keep === false ? undefined : keepPreviousData,
    meta: { live: options.live ?? kindsOf(path) },
  });
  const { fetchNextPage, hasNextPage, isFetching, isPlaceholderData } = found;
  const pages = found.data?.pages;
  const rows = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages]);
  const wants = hasNextPage && !isFetching && !isPlaceholderData && !found.isError && rows.length < FILL && (pages?.length ?? 0) < TURNS;
  useEffect(() => {
    if (wants) void fetchNextPage();
  }, [wants, fetchNextPage]);
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
  };
}

/** What `useApi` gave, as a list for `Table`: `listOf(query, (data) => data.items)`. */
export function listOf<D, T>(query: UseQueryResult<D, Problem>, pick: (data: D) => T[]): ListState<T> {
  return {
    rows: query.data === undefined ? [] : pick(query.data),
    loading: query.isPending,
    fetching: query.isFetching,
    error: query.error,
    hasMore: false,
    loadMore: () => {},
    loadingMore: false,
    count: null,
    refetch: () => void query.refetch(),
    updatedAt: query.dataUpdatedAt,
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
