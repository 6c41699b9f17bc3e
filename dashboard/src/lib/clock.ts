/** The server's clock, as well as we know it, and one tick a second for everything that shows an age. */

let skewMs = 0;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Now by the server's clock: a browser's clock that is minutes off must not show jobs from the future. */
export function now(): number {
  return Date.now() + skewMs;
}

/** Learns from the `Date` header of an answer, which has whole seconds: small differences are left alone. */
export function learnClock(header: string | null): void {
  const at = header ? Date.parse(header) : Number.NaN;
  if (Number.isNaN(at)) return;
  const skew = at + 500 - Date.now();
  skewMs = Math.abs(skew) > 3000 ? skew : 0;
}

/** Calls back every second while the page is seen; one timer for all. */
export function onTick(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    if (!document.hidden) for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}
