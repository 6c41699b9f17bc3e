/** The store of answers that pages share. */

import { QueryClient } from "@tanstack/react-query";
import { Problem } from "@/api/problem";

export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        gcTime: 5 * 60_000,
        refetchOnWindowFocus: false, // the stream knows better
        refetchOnReconnect: true,
        // What may pass by itself; everything else is said at once.
        retry: (failures, error) => failures < 2 && error instanceof Problem && (error.offline || error.status === 503) && error.code !== "too_slow",
        retryDelay: (failures, error) => ((error as unknown as Problem).retryAfterS ?? 0.5 * 2 ** failures) * 1000,
      },
      mutations: { retry: false },
    },
  });
}
