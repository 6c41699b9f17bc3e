/** What somebody types, once they pause. */

import { useEffect, useState } from "react";

/** `value` as it was when it had not changed for so long; `settled` while it is the same as now. */
export function useDebounced<T>(value: T, ms = 300): [value: T, settled: boolean] {
  const [slow, setSlow] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return [slow, Object.is(slow, value)];
}
