/** What is round every page: the menu, the environment, the connection, who one is. */

import { Fragment, type ReactNode, useEffect, useState } from "react";
import { Link as RouterLink, useLocation } from "wouter";
import { cx } from "@/lib/classes";
import { useKeys } from "@/lib/keys";
import { roleWords, useRights } from "@/lib/rights";
import { environment } from "@/lib/root";
import { type Theme, useTheme } from "@/lib/theme";
import { Kbd } from "@/ui/badge";
import { IconButton } from "@/ui/button";
import { Icon, type IconName } from "@/ui/icons";
import { Menu } from "@/ui/menu";
import { Tooltip } from "@/ui/tooltip";
import { ConnectionBanner, ConnectionState } from "./banner";
import { Help } from "./help";
import { PLACES } from "./routes";
import { useMe, useSignOut } from "./session";

export function Shell({ children }: { children: ReactNode }) {
  const [help, setHelp] = useState(false);
  const [drawer, setDrawer] = useState(false);
  const [path, navigate] = useLocation();
  const { can } = useRights();
  const { apps } = useMe();
  const places = PLACES.filter((place) => (!place.op || can(place.op)) && (!place.module || apps?.includes(place.module)));
  useEffect(() => setDrawer(false), [path]);
  useKeys([
    { keys: "?", does: "This help", run: () => setHelp(true), group: "Everywhere" },
    ...places.map((place) => ({ keys: `g ${place.key}`, does: place.title, run: () => navigate(place.path), group: "Go to" })),
  ]);
  const menu = <Navigation path={path} places={places} onHelp={() => setHelp(true)} />;
  return (
    <div className="flex h-full flex-col">
      <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-md focus:bg-raised focus:px-3 focus:py-1.5 focus:shadow-pop">
        Skip to the page
      </a>
      <Ribbon />
      <div className="flex min-h-0 grow">
        <aside className="hidden w-52 shrink-0 flex-col border-r bg-sunken md:flex">{menu}</aside>
        <div className="flex min-w-0 grow flex-col">
          <header className="flex items-center gap-2 border-b px-2 py-1.5 md:hidden">
            <IconButton label="Menu" icon="menu" onClick={() => setDrawer(true)} aria-expanded={drawer} />
            <Brand />
            <span className="ml-auto pr-2">
              <ConnectionState />
            </span>
          </header>
          <ConnectionBanner />
          <main id="main" tabIndex={-1} className="min-h-0 grow overflow-y-auto focus:outline-none">
            {children}
          </main>
        </div>
      </div>
      {drawer && <Drawer onClose={() => setDrawer(false)}>{menu}</Drawer>}
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

const RIBBONS: Record<string, [look: string, words: string]> = {
  production: ["bg-bad-fill text-on-accent", "Production"],
  staging: ["bg-warn text-page", "Staging"],
  local: ["bg-active text-muted", "Local"],
};

/** The environment's name, where nobody overlooks it. */
export function Ribbon() {
  if (!environment) return null;
  const [look, words] = RIBBONS[environment] ?? RIBBONS.local!;
  return (
    <div role="note" aria-label={`Environment: ${words}`} className={cx("h-4 shrink-0 text-center text-2xs font-semibold tracking-widest uppercase select-none", look)}>
      {words}
    </div>
  );
}

function Brand() {
  return (
    <RouterLink href="/" className="flex items-center gap-2 rounded-sm text-base font-semibold tracking-tight">
      <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
        <rect width="32" height="32" rx="7" className="fill-accent-fill" />
        <path d="M16 6.5a9.5 9.5 0 1 0 9.5 9.5M16 10.5V16l4 2.5" fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round" strokeLinejoin="round" />
        <circle cx="22.7" cy="9.3" r="2" fill="#fff" />
      </svg>
      Rota
    </RouterLink>
  );
}

function Navigation({ path, places, onHelp }: { path: string; places: typeof PLACES; onHelp: () => void }) {
  const groups = [...Map.groupBy(places, (place) => place.group)];
  return (
    <>
      <div className="flex h-11 items-center px-4">
        <Brand />
        <span className="ml-auto">
          <ConnectionState />
        </span>
      </div>
      <nav aria-label="Pages" className="flex min-h-0 grow flex-col gap-px overflow-y-auto px-2 pb-2">
        {groups.map(([group, members], index) => (
          <Fragment key={group}>
            {index > 0 && <div className="mx-2 my-1.5 border-t" />}
            {members.map((place) => {
              const here = place.path === "/" ? path === "/" : path === place.path || path.startsWith(`${place.path}/`);
              return (
                <RouterLink
                  key={place.path}
                  href={place.path}
                  aria-current={here ? "page" : undefined}
                  className={cx("group flex h-7.5 items-center gap-2.5 rounded-md px-2", here ? "bg-accent-soft font-medium text-accent-strong" : "text-muted hover:bg-hover hover:text-text")}
                >
                  <Icon name={place.icon} />
                  {place.title}
                  <span aria-hidden className="ml-auto hidden gap-0.5 opacity-0 group-hover:opacity-100 md:flex">
                    <Kbd>g</Kbd>
                    <Kbd>{place.key}</Kbd>
                  </span>
                </RouterLink>
              );
            })}
          </Fragment>
        ))}
      </nav>
      <Account onHelp={onHelp} />
    </>
  );
}

const THEMES: [Theme, string, IconName][] = [
  ["light", "Light", "sun"],
  ["dark", "Dark", "moon"],
  ["system", "As the system", "system"],
];

function Account({ onHelp }: { onHelp: () => void }) {
  const me = useMe();
  const signOut = useSignOut();
  const [theme, setTheme] = useTheme();
  return (
    <div className="flex items-center gap-0.5 border-t px-2 py-2">
      <Tooltip words={`${me.email}, ${roleWords(me.role)}`}>
        <div tabIndex={-1} className="min-w-0 grow px-2 leading-4">
          <p className="truncate text-xs">{me.email}</p>
          <p className="truncate text-2xs text-muted">{roleWords(me.role)}</p>
        </div>
      </Tooltip>
      <IconButton small label="Keys (?)" icon="help" onClick={onHelp} />
      <Menu
        label="Theme and account"
        hideLabel
        small
        look="quiet"
        icon="user"
        items={[
          ...THEMES.map(([value, label, icon]) => ({ label, icon, checked: theme === value, onSelect: () => setTheme(value) })),
          "-" as const,
          { label: "Sign out", icon: "out" as const, onSelect: () => void signOut() },
        ]}
      />
    </div>
  );
}

/** The menu on a phone. */
function Drawer({ onClose, children }: { onClose: () => void; children: ReactNode }) {
  const open = (dialog: HTMLDialogElement | null) => {
    if (dialog && !dialog.open) dialog.showModal();
  };
  return (
    <dialog
      ref={open}
      aria-label="Menu"
      onClose={onClose}
      onClick={(event) => event.target === event.currentTarget && onClose()}
      className="m-0 h-dvh max-h-none w-64 max-w-[85vw] border-r bg-sunken p-0"
    >
      <div className="flex h-full flex-col">{children}</div>
    </dialog>
  );
}
