/** A button that opens a list of things to do. */

import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { cx } from "@/lib/classes";
import { useRights } from "@/lib/rights";
import { Button, type ButtonProps } from "./button";
import { Icon, type IconName } from "./icons";

export interface MenuItem {
  label: ReactNode;
  icon?: IconName;
  onSelect: () => void;
  op?: string;
  disabledWhy?: string | false;
  danger?: boolean;
  /** It is the one of several that holds now. */
  checked?: boolean;
}

/** `<Menu label="Copy as" items={[{ label: "Python", onSelect }]} />`; "-" is a line between items. */
export function Menu({ label, items, icon, hideLabel, ...rest }: { label: string; items: (MenuItem | "-")[]; hideLabel?: boolean } & Omit<ButtonProps, "children">) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLSpanElement>(null);
  const close = (refocus = true) => {
    setOpen(false);
    if (refocus) button.current?.querySelector("button")?.focus();
  };
  return (
    <span ref={button} className="inline-flex">
      <Button
        {...rest}
        icon={icon}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={hideLabel ? label : undefined}
        tooltip={hideLabel && !open ? label : undefined}
        className={cx(hideLabel && "!px-1.5", rest.className)}
        onClick={() => setOpen(!open)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") {
            event.preventDefault();
            setOpen(true);
          }
        }}
      >
        {!hideLabel && label}
        {!hideLabel && <Icon name="down" size={12} />}
      </Button>
      {open && <List label={label} items={items} anchor={button.current!} onClose={close} />}
    </span>
  );
}

/** Puts a list below its button, or above it where there is no room. */
function standBy(list: HTMLElement, anchor: HTMLElement) {
  const at = anchor.getBoundingClientRect();
  const { width, height } = list.getBoundingClientRect();
  const below = at.bottom + 4;
  list.style.top = `${below + height < window.innerHeight ? below : Math.max(4, at.top - height - 4)}px`;
  list.style.left = `${Math.max(6, Math.min(at.left, window.innerWidth - width - 6))}px`;
}

function List({ label, items, anchor, onClose }: { label: string; items: (MenuItem | "-")[]; anchor: HTMLElement; onClose: (refocus?: boolean) => void }) {
  const own = useRef<HTMLDivElement>(null);
  const rights = useRights();
  useLayoutEffect(() => {
    standBy(own.current!, anchor);
    own.current!.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
  }, [anchor]);
  useEffect(() => {
    const away = (event: Event) => {
      if (!own.current?.contains(event.target as Node) && !anchor.contains(event.target as Node)) onClose(false);
    };
    // Also when rows above it come anew: it goes along with its button for as long as that can be seen.
    const scrolled = () => {
      const { top, bottom } = anchor.getBoundingClientRect();
      if (bottom < 0 || top > window.innerHeight) onClose(false);
      else standBy(own.current!, anchor);
    };
    document.addEventListener("pointerdown", away, true);
    window.addEventListener("scroll", scrolled, true);
    window.addEventListener("resize", scrolled);
    return () => {
      document.removeEventListener("pointerdown", away, true);
      window.removeEventListener("scroll", scrolled, true);
      window.removeEventListener("resize", scrolled);
    };
  }, [anchor, onClose]);
  const onKeyDown = (event: React.KeyboardEvent) => {
    const all = [...own.current!.querySelectorAll<HTMLElement>("[role^=menuitem]")];
    const here = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) all.at(to % all.length)?.focus();
    else if (event.key === "Escape" || event.key === "Tab") onClose();
    else if (event.key.length === 1 && event.key !== " ") {
      const typed = event.key.toLowerCase();
      [...all.slice(here + 1), ...all].find((each) => each.textContent?.toLowerCase().startsWith(typed))?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const place = anchor.closest("dialog[open]") ?? document.body;
  return createPortal(
    <div ref={own} role="menu" aria-label={label} data-menu onKeyDown={onKeyDown} className="fixed z-50 flex max-h-[70vh] min-w-40 flex-col overflow-y-auto rounded-md border bg-raised p-1 shadow-pop animate-appear">
      {items.map((item, index) => {
        if (item === "-") return <div key={index} role="separator" className="my-1 border-t" />;
        const why = item.op && !rights.can(item.op) ? rights.why(item.op) : item.disabledWhy || undefined;
        return (
          <button
            key={index}
            type="button"
            role={item.checked === undefined ? "menuitem" : "menuitemradio"}
            aria-checked={item.checked}
            aria-disabled={why ? true : undefined}
            title={why}
            tabIndex={-1}
            onClick={() => {
              if (why) return;
              onClose();
              item.onSelect();
            }}
            className={cx("flex w-full items-center gap-2 rounded-sm px-2 py-1 text-left text-sm hover:bg-hover focus:bg-hover focus:outline-none", item.danger && "text-bad", why && "cursor-not-allowed opacity-50")}
          >
            {item.icon && <Icon name={item.icon} size={14} />}
            <span className="grow">{item.label}</span>
            {item.checked && <Icon name="check" size={14} />}
          </button>
        );
      })}
    </div>,
    place,
  );
}
