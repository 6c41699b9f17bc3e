/** What who is signed in may do. The server decides; this only says so beforehand, with the reason. */

import { type ReactNode, createContext, useContext } from "react";

export interface Rights {
  /** Whether they may do this: `can("jobs.change")`. */
  can: (operation: string) => boolean;
  /** Why they may not, for people. */
  why: (operation: string) => string;
}

const ROLES: Record<string, string> = { admin: "admin", operator: "operator", read_only: "read-only", user: "user" };
const DONE: Record<string, string> = { change: "change", read: "see", trigger: "run", edit: "edit", schedule: "schedule" };

/** The role's name as people read it. */
export function roleWords(role: string): string {
  return ROLES[role] ?? role;
}

/** Rights from what `/auth/me` says. */
export function rightsOf(me: { role: string; may: string[] }): Rights {
  const may = new Set(me.may);
  return {
    can: (operation) => may.has(operation),
    why: (operation) => {
      const [noun = operation, verb = ""] = operation.split(".");
      return `Your role (${roleWords(me.role)}) may not ${DONE[verb] ?? verb} ${noun}. Ask an admin.`;
    },
  };
}

const Context = createContext<Rights>({ can: () => true, why: () => "" });

export function RightsProvider({ rights, children }: { rights: Rights; children: ReactNode }) {
  return <Context.Provider value={rights}>{children}</Context.Provider>;
}

/** `const { can } = useRights(); can("jobs.change")` */
export function useRights(): Rights {
  return useContext(Context);
}
