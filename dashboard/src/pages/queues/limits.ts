/** Limits as people write them. The database keeps a rate as `100/60s`; people write `100/m`. */

const UNITS: Record<string, string> = { "1s": "s", "60s": "m", "3600s": "h", "86400s": "d" };
const RATE = /^\d+\/(s|m|h|d|(\d+(\.\d+)?(ms|s|m|h|d))+)$/;

/** A stored rate as one types it: "100/m". */
export function rateText(stored: string | null | undefined): string {
  if (!stored) return "";
  const [count, period = ""] = stored.split("/");
  return `${count}/${UNITS[period] ?? period}`;
}

/** What holds, in words: "5 at once, 100/m"; "none". */
export function limitWords(concurrency: number | null | undefined, rate: string | null | undefined): string {
  return [concurrency && `${concurrency} at once`, rateText(rate)].filter(Boolean).join(", ") || "none";
}

/** What is wrong with a number that may be left out. */
export function wrongCount(text: string, most = 100_000): string | undefined {
  if (text.trim() === "") return undefined;
  return /^\d+$/.test(text.trim()) && Number(text) >= 1 && Number(text) <= most ? undefined : `a whole number from 1 to ${most}, or nothing`;
}

/** What is wrong with a rate that may be left out. */
export function wrongRate(text: string): string | undefined {
  return text.trim() === "" || RATE.test(text.trim()) ? undefined : "a rate such as 100/m (per s, m, h, d) or 5/10s, or nothing";
}

/** A typed number, null for nothing. */
export function countOf(text: string): number | null {
  return text.trim() === "" ? null : Number(text);
}

/** A typed text, null for nothing. */
export function textOf(text: string): string | null {
  return text.trim() === "" ? null : text.trim();
}
