/** Icons: strokes on a grid of 16, in the colour of the text. They are never alone: a word or a label is beside them. */

import { cx } from "@/lib/classes";

const SHAPES = {
  overview: "M2 9.5 5 6l3 2.5L14 3M2 13.5h12",
  jobs: "M3 3.5h10M3 8h10M3 12.5h6",
  errors: "M8 2.5 14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1",
  tasks: "M6 3 2 8l4 5M10 3l4 5-4 5",
  schedules: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M8 4.8V8l2.2 1.5",
  calendar: "M2.5 3.5h11v10h-11zM2.5 6.5h11M5.5 2v3M10.5 2v3",
  queues: "M2 4.5 8 2l6 2.5L8 7zM2 8l6 2.5L14 8M2 11.5 8 14l6-2.5",
  workers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.1M5 11h.1",
  logs: "M4 2h8v12H4zM6.2 5.5h3.6M6.2 8h3.6M6.2 10.5h2",
  alerts: "M4 11V7a4 4 0 0 1 8 0v4l1 1H3zM6.8 14h2.4",
  globe: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M2 8h12M8 2c2.4 2.2 2.4 9.8 0 12M8 2c-2.4 2.2-2.4 9.8 0 12",
  settings: "M2 4.5h6M11.5 4.5H14M2 11.5h2.5M8 11.5h6M9.7 2.8v3.4M6.2 9.8v3.4",
  check: "m3 8.5 3.2 3.2L13 5",
  cross: "m4 4 8 8M12 4l-8 8",
  circle: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11",
  dots: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  play: "M5 3v10l8-5z",
  pause: "M5.5 3v10M10.5 3v10",
  stop: "M4 4h8v8H4z",
  retry: "M13 8a5 5 0 1 1-1.5-3.6L13 6M13 2.5V6H9.5",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3l2 1.5",
  hourglass: "M4.5 2h7M4.5 14h7M5 2c0 3.5 6 4.5 6 6s-6 2.5-6 6M11 2c0 3.5-6 4.5-6 6s6 2.5 6 6",
  ban: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M4.2 4.2l7.6 7.6",
  warning: "M8 2.5 14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1",
  info: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 7.3v3.4M8 5.2v.1",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.3 10.3 14 14",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  edit: "M3 13l.6-2.8L11 2.8l2.2 2.2-7.4 7.4zM9.5 4.3l2.2 2.2",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 9h5.8l.6-9",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  down: "m4 6 4 4 4-4",
  up: "m4 10 4-4 4 4",
  right: "m6 4 4 4-4 4",
  left: "m10 4-4 4 4 4",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1v-5z",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  user: "M8 2.5a2.75 2.75 0 1 0 0 5.5 2.75 2.75 0 0 0 0-5.5M3 13.5c0-2.5 2.2-4 5-4s5 1.5 5 4",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5",
  system: "M2 3h12v8H2zM6 14h4",
  external: "M9 3h4v4M13 3 7.5 8.5M11 9v4H3V5h4",
  out: "M6.5 3H3v10h3.5M10.5 5l3 3-3 3M13.5 8H6",
  help: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M6.3 6.4c.2-2 3.4-2 3.4 0 0 1.3-1.7 1.3-1.7 2.6M8 11v.1",
  key: "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8.4 7.6 3 13M4.5 11.5l1.5 1.5",
  bolt: "M9 1.5 3.5 9H8l-1 5.5L12.5 7H8z",
  feeds: "M3 3c5.5 0 10 4.5 10 10M3 7.5c3 0 5.5 2.5 5.5 5.5M4 12v.1",
  link: "M6.5 9.5 9.5 6.5M7 4.5l1.2-1.2a2.9 2.9 0 0 1 4.1 4.1L11 8.7M9 11.5l-1.2 1.2a2.9 2.9 0 0 1-4.1-4.1L5 7.3",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, size = 16, className }: { name: IconName; size?: number; className?: string }) {
  return (
    <svg
      viewBox="0 0 16 16"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className={cx("shrink-0", className)}
    >
      <path d={SHAPES[name]} />
    </svg>
  );
}
