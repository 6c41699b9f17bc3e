/** The whole dashboard. */

import { QueryClientProvider } from "@tanstack/react-query";
import { Suspense, useEffect, useState } from "react";
import { Redirect, Route, Router, Switch, useLocation } from "wouter";
import { listenForKeys } from "@/lib/keys";
import { useRights } from "@/lib/rights";
import { base } from "@/lib/root";
import { Skeleton } from "@/ui/spinner";
import { Toasts } from "@/ui/toasts";
import { Boundary, NotFound } from "./errors";
import { LiveProvider } from "./live";
import { makeQueryClient } from "./queries";
import { DETAILS, PLACES, SignInPage } from "./routes";
import { SignedIn } from "./session";
import { Ribbon, Shell } from "./shell";

export function App() {
  const [client] = useState(makeQueryClient);
  useEffect(listenForKeys, []);
  return (
    <QueryClientProvider client={client}>
      <Router base={base}>
        <Switch>
          <Route path="/sign-in">
            <Ribbon />
            <Suspense>
              <SignInPage />
            </Suspense>
          </Route>
          <Route>
            <SignedIn>
              <Live />
            </SignedIn>
          </Route>
        </Switch>
        <Toasts />
      </Router>
    </QueryClientProvider>
  );
}

function Live() {
  const { can } = useRights();
  const [path] = useLocation();
  return (
    <LiveProvider on={can("jobs.read")}>
      <Shell>
        <Boundary at={path}>
          <Suspense fallback={<Skeleton lines={6} className="p-6" />}>
            <Switch>
              <Route path="/">{can("jobs.read") ? <Home /> : <Redirect to="/own-jobs" replace />}</Route>
              {PLACES.filter((place) => place.path !== "/").map(({ path, Component }) => (
                <Route key={path} path={path} component={Component} />
              ))}
              {DETAILS.map(({ path, Component }) => (
                <Route key={path} path={path} component={Component} />
              ))}
              <Route component={NotFound} />
            </Switch>
          </Suspense>
        </Boundary>
      </Shell>
    </LiveProvider>
  );
}

const Home = PLACES[0]!.Component;
