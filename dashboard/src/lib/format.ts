/** Times, durations and counts in words. */

const DAY = 86_400;

/** Seconds of an ISO 8601 duration ("PT1M30.5S"), or of a number as it is; NaN if it is neither. */
export function seconds(duration: string | number): number {
  if (typeof duration === "number") return duration;
  const found = /^(-)?P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?$/.exec(duration);
  if (!found || duration.length < 3) return Number.NaN;
  const [, sign, w = 0, d = 0, h = 0, m = 0, s = 0] = found;
  return (sign ? -1 : 1) * (Number(w) * 7 * DAY + Number(d) * DAY + Number(h) * 3600 + Number(m) * 60 + Number(s));
}

/** A duration as people say it, two units at most: "340 ms", "1 min 30 s", "2 h 5 min", "3 d". */
export function durationWords(duration: string | number): string {
  const all = seconds(duration);
  if (Number.isNaN(all)) return String(duration);
  const s = Math.abs(all);
  const sign = all < 0 ? "−" : "";
  if (s === 0) return "0 s";
  if (s < 0.001) return `${sign}< 1 ms`;
  if (s < 1) return `${sign}${Math.round(s * 1000)} ms`;
  if (s < 10) return `${sign}${trim(s.toFixed(1))} s`;
  if (s < 59.5) return `${sign}${Math.round(s)} s`;
  if (s < 3570) return sign + two(s, 60, "min", 1, "s");
  if (s < DAY - 30) return sign + two(s, 3600, "h", 60, "min");
  return sign + two(s, DAY, "d", 3600, "h");
}

function two(s: number, large: number, largeName: string, small: number, smallName: string): string {
  const inSmall = Math.round(s / small);
  const ratio = large / small;
  const rest = inSmall % ratio;
  const whole = Math.floor(inSmall / ratio);
  return rest && whole < 10 * (largeName === "d" ? 1 : 6) ? `${whole} ${largeName} ${rest} ${smallName}` : `${whole} ${largeName}`;
}

function trim(text: string): string {
  return text.replace(/\.0$/, "");
}

/** How long ago, or how far ahead: "12 s ago", "in 4 min", "now". */
export function relative(at: number, from: number): string {
  const s = (from - at) / 1000;
  const size = Math.abs(s);
  if (size < 1.5) return "now";
  const words = coarse(size);
  return s > 0 ? `${words} ago` : `in ${words}`;
}

/** An age in one unit, for where there is little room: "12 s", "4 min", "3 h", "2 d". */
export function coarse(s: number): string {
  if (s < 59.5) return `${Math.round(s)} s`;
  if (s < 3570) return `${Math.round(s / 60)} min`;
  if (s < DAY * 1.5) return `${Math.round(s / 3600)} h`;
  if (s < DAY * 60) return `${Math.round(s / DAY)} d`;
  if (s < DAY * 700) return `${Math.round(s / (DAY * 30.44))} months`;
  return `${Math.round(s / (DAY * 365.25))} years`;
}

/** The browser's time zone, which absolute times are shown in. */
export const zone: string = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** A time in full, with the zone: "2026-02-22 14:03:09 Europe/Berlin". */
export function absolute(at: number | string, tz: string = zone): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : `${local(date, tz)} ${tz}`;
}

const formats = new Map<string, Intl.DateTimeFormat>(); // each takes longer to make than a row with its times

/** A time in a zone without its name: "2026-02-22 14:03:09"; `clock` alone: "14:03:09". */
export function local(at: Date | number | string, tz: string = zone, part: "both" | "date" | "clock" | "minutes" = "both"): string {
  const key = `${part} ${tz}`;
  let format = formats.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat("sv-SE", {
      timeZone: tz,
      ...(part === "clock" || part === "minutes" ? {} : { year: "numeric", month: "2-digit", day: "2-digit" }),
      ...(part === "date" ? {} : { hour: "2-digit", minute: "2-digit", ...(part === "minutes" ? {} : { second: "2-digit" }) }),
    } as Intl.DateTimeFormatOptions);
    formats.set(key, format);
  }
  return format.format(new Date(at)).replace(",", "");
}

const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A number with its thousands apart. */
export function count(value: number): string {
  return counts.format(value);
}

/** A number in little room: "999", "12k", "3.4M"; capped: "10k+"; estimated: "≈ 60k". */
export function shortCount(value: number, capped = false, estimated = false): string {
  const text = value < 10_000 && !capped ? counts.format(value) : compact.format(value).replace("K", "k");
  return capped ? `${text}+` : estimated ? `≈ ${text}` : text;
}

/** Bytes: "512 B", "1.2 kB". */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const power = Math.min(3, Math.floor(Math.log10(size) / 3));
  return `${trim((size / 1000 ** power).toFixed(1))} ${["B", "kB", "MB", "GB"][power]}`;
}

/** The first part of a UUID, which is enough to tell rows apart at a glance: its random end, since the start is the time. */
export function shortId(id: string): string {
  return id.length === 36 ? id.slice(-8) : id;
}
