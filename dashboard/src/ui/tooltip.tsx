/** A word or two about what the pointer or the focus is on. */

import { type ReactElement, type ReactNode, cloneElement, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";

type Target = ReactElement<{ [name: string]: unknown }>;

/** Shows `words` above its one child while that has the pointer or the focus; Escape hides it. */
export function Tooltip({ words, children }: { words: ReactNode; children: Target }) {
  const [at, setAt] = useState<DOMRect | null>(null);
  const id = useId();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  if (!words) return children;
  const props = children.props;
  const call = (name: string, event: unknown) => (props[name] as ((event: unknown) => void) | undefined)?.(event);
  const show = (event: { currentTarget: Element }, after: number) => {
    const target = event.currentTarget;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setAt(target.getBoundingClientRect()), after);
  };
  const hide = () => {
    clearTimeout(timer.current);
    setAt(null);
  };
  return (
    <>
      {cloneElement(children, {
        "aria-describedby": [props["aria-describedby"], at && id].filter(Boolean).join(" ") || undefined,
        onPointerEnter: (event: React.PointerEvent) => {
          call("onPointerEnter", event);
          if (event.pointerType !== "touch") show(event, 250);
        },
        onPointerLeave: (event: unknown) => (call("onPointerLeave", event), hide()),
        onFocus: (event: React.FocusEvent) => (call("onFocus", event), show(event, 0)),
        onBlur: (event: unknown) => (call("onBlur", event), hide()),
        onKeyDown: (event: React.KeyboardEvent) => (call("onKeyDown", event), event.key === "Escape" && hide()),
      })}
      {at && <Bubble id={id} at={at} words={words} />}
    </>
  );
}

function Bubble({ id, at, words }: { id: string; at: DOMRect; words: ReactNode }) {
  const own = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const bubble = own.current;
    if (!bubble) return;
    const { width, height } = bubble.getBoundingClientRect();
    const above = at.top - height - 6;
    bubble.style.top = `${above > 4 ? above : at.bottom + 6}px`;
    bubble.style.left = `${Math.max(6, Math.min(window.innerWidth - width - 6, at.left + at.width / 2 - width / 2))}px`;
  });
  // In the open dialog, if there is one: what is outside of it is behind it.
  const place = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  return createPortal(
    <div
      ref={own}
      id={id}
      role="tooltip"
      className="pointer-events-none fixed z-50 max-w-80 rounded-md bg-text px-2 py-1 text-xs text-page shadow-pop wrap-anywhere animate-appear"
    >
      {words}
    </div>,
    place,
  );
}
