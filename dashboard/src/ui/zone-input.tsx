/** A time zone, by its IANA name. Apart from the rest of the kit: only pages that ask for one load it. */

import { type ReactNode, memo, useId } from "react";
import { zone } from "@/lib/format";
import { Input } from "./fields";

/** The zone if this browser knows it, UTC if not: its list may be older than the server's, and times must be shown all the same. */
export function knownZone(tz: string): string {
  try {
    new Intl.DateTimeFormat("en", { timeZone: tz });
    return tz;
  } catch {
    return "UTC";
  }
}

/** Whether there is such a zone, as far as this browser knows. */
export function isZone(tz: string): boolean {
  return tz === "UTC" || knownZone(tz) !== "UTC" || /^(etc\/)?(utc|uct|zulu|universal|gmt)$/i.test(tz);
}

/** A field for a zone that offers all there are, one's own and UTC first. */
export function ZoneInput({ label = "Time zone", hint, error, hideLabel, className, value, onChange }: { label?: string; hint?: ReactNode; error?: ReactNode; hideLabel?: boolean; className?: string; value: string; onChange: (tz: string) => void }) {
  const id = useId();
  return (
    <>
      <Input {...{ label, hint, error, hideLabel, className, value, onChange }} list={id} placeholder="Europe/Berlin" />
      <Zones id={id} />
    </>
  );
}

/** All zones there are: some hundreds, which are not to be gone through again with every key. */
const Zones = memo(function Zones({ id }: { id: string }) {
  return (
    <datalist id={id}>
      {[...new Set([zone, "UTC", ...Intl.supportedValuesOf("timeZone")])].map((each) => (
        <option key={each} value={each} />
      ))}
    </datalist>
  );
});
