/** Light, dark, or as the system says. Kept in a cookie, which the server reads: the first paint is right, and no script is needed. */

import { useSyncExternalStore } from "react";
import { base } from "./root";

export type Theme = "light" | "dark" | "system";

const NAME = "rota_theme";
const listeners = new Set<() => void>();

export function theme(): Theme {
  const found = new RegExp(`(?:^|; )${NAME}=(light|dark)`).exec(document.cookie)?.[1];
  return (found as Theme | undefined) ?? "system";
}

export function setTheme(wanted: Theme): void {
  const age = wanted === "system" ? 0 : 31_536_000;
  document.cookie = `${NAME}=${wanted}; path=${base}; max-age=${age}; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  apply();
  for (const listener of listeners) listener();
}

/** Puts the choice on the page, as the server has done unless somebody else serves it. */
export function apply(): void {
  const wanted = theme();
  if (wanted === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
}

/** Calls back when what is seen changes, by choice or by the system. */
export function onTheme(listener: () => void): () => void {
  const system = window.matchMedia?.("(prefers-color-scheme: dark)");
  listeners.add(listener);
  system?.addEventListener("change", listener);
  return () => {
    listeners.delete(listener);
    system?.removeEventListener("change", listener);
  };
}

export function useTheme(): [Theme, (wanted: Theme) => void] {
  return [useSyncExternalStore(onTheme, theme), setTheme];
}
