/** Who is signed in. Without anybody, the way leads to the sign-in page, and back afterwards. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, createContext, useContext, useEffect, useMemo } from "react";
import { Redirect, useLocation } from "wouter";
import { onSessionLost, send } from "@/api/client";
import type { Problem } from "@/api/problem";
import type { Schema } from "@/api/types";
import { RightsProvider, rightsOf } from "@/lib/rights";
import { base } from "@/lib/root";
import { toast } from "@/lib/toasts";
import { Spinner, useSlow } from "@/ui/spinner";
import { ErrorPanel } from "@/ui/states";

export type Me = Schema<"Me">;

const Context = createContext<Me | null>(null);
const KEY = ["/auth/me"];

/** Who is signed in, and what they may. Only below `SignedIn`, which all pages but the sign-in are. */
export function useMe(): Me {
  const me = useContext(Context);
  if (!me) throw new Error("nobody is signed in here");
  return me;
}

/** Renders its children for who is signed in, with their rights. */
export function SignedIn({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const me = useQuery<Me, Problem>({
    queryKey: KEY,
    queryFn: async ({ signal }) => (await send("get", "/auth/me", { signal })).body as Me,
    staleTime: 60_000,
    refetchInterval: (query) => (query.state.error && query.state.error.status !== 401 ? 4000 : 300_000),
  });
  useEffect(() => onSessionLost(() => void client.invalidateQueries({ queryKey: KEY }, { cancelRefetch: false })), [client]);
  const rights = useMemo(() => (me.data ? rightsOf(me.data) : null), [me.data]);
  const slow = useSlow(me.isPending, 300);
  if (me.error?.status === 401) return <ToSignIn />;
  if (me.data && rights) {
    return (
      <Context.Provider value={me.data}>
        <RightsProvider rights={rights}>{children}</RightsProvider>
      </Context.Provider>
    );
  }
  if (me.error) return <ErrorPanel problem={me.error} onRetry={() => void me.refetch()} />;
  return <div className="grid h-full place-items-center text-muted">{slow && <Spinner size={20} label="Loading" />}</div>;
}

function ToSignIn() {
  const [path] = useLocation();
  const next = `${base}${path === "/" ? "" : path}${location.search}`;
  return <Redirect to={`/sign-in?next=${encodeURIComponent(next)}`} replace />;
}

/** Ends the session; what was seen is forgotten. */
export function useSignOut(): () => Promise<void> {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  return async () => {
    try {
      await send("post", "/auth/logout");
    } catch (error) {
      if ((error as Problem).status !== 401) {
        toast((error as Problem).message, { kind: "bad" });
        return;
      }
    }
    navigate("/sign-in");
    client.clear();
  };
}
