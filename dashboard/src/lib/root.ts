/** Where this server is reached: the one place that knows of sub-paths. The server writes it into index.html. */

function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? "";
}

/** The path before everything of ours: "" or "/sub". */
export const root: string = meta("rota-root");

/** The path of the pages, which the router works below. */
export const base: string = `${root}/dashboard`;

/** The environment's name as the server is configured: "local", "production", …; "" if unknown. */
export const environment: string = meta("rota-env");

/** The address of a path of the API, for fetch, EventSource and links that leave the pages. */
export function apiUrl(path: string): string {
  return `${root}${path}`;
}

/** The whole address of a path of the API, for people to paste elsewhere. */
export function absoluteUrl(path: string): string {
  return `${location.origin}${root}${path}`;
}
