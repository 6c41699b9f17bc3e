/** Buttons and links. With `op`, one that may not is disabled and says why. */

import { type ComponentProps, type ReactNode, useState } from "react";
import { Link as RouterLink } from "wouter";
import { cx } from "@/lib/classes";
import { useRights } from "@/lib/rights";
import { Icon, type IconName } from "./icons";
import { Spinner } from "./spinner";
import { Tooltip } from "./tooltip";

type Look = "plain" | "primary" | "danger" | "quiet";

const LOOKS: Record<Look, string> = {
  plain: "border border-line-strong bg-raised text-text enabled-hover:bg-hover",
  primary: "border border-transparent bg-accent-fill text-on-accent enabled-hover:bg-accent-fill-hover",
  danger: "border border-transparent bg-bad-fill text-on-accent enabled-hover:bg-bad-fill-hover",
  quiet: "border border-transparent text-muted enabled-hover:bg-hover enabled-hover:text-text",
};

export interface ButtonProps extends Omit<ComponentProps<"button">, "disabled"> {
  look?: Look;
  icon?: IconName;
  /** The operation it takes, as `jobs.change`: without the right to it the button is disabled and says why. */
  op?: string;
  /** Why it cannot be pressed now; shown like the reason of a missing right. */
  disabledWhy?: string | false | null;
  disabled?: boolean;
  /** Something is going on: it shows so, and takes no second press. */
  busy?: boolean;
  tooltip?: ReactNode;
  small?: boolean;
  /** On a phone only the icon is shown, in a row with little room. */
  collapse?: boolean;
}

export function Button({ look = "plain", icon, op, disabledWhy, disabled, busy, tooltip, small, collapse, className, children, onClick, ...rest }: ButtonProps) {
  const rights = useRights();
  const why = op && !rights.can(op) ? rights.why(op) : disabledWhy || undefined;
  const off = Boolean(why) || disabled || busy;
  return (
    <Tooltip words={why ?? tooltip}>
      <button
        type="button"
        {...rest}
        // Not `disabled`, which takes the focus away, and with it the reason.
        aria-disabled={off || undefined}
        aria-busy={busy || undefined}
        onClick={(event) => (off ? event.preventDefault() : onClick?.(event))}
        className={cx(
          "inline-flex items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap select-none",
          small ? "h-6 px-2 text-xs" : "h-7.5 px-3 text-sm",
          collapse && "max-sm:size-7.5 max-sm:!px-0",
          off && !busy && "cursor-not-allowed opacity-50",
          LOOKS[look],
          className,
        )}
      >
        {busy ? <Spinner size={14} /> : icon && <Icon name={icon} size={14} />}
        {collapse ? <span className="max-sm:sr-only">{children}</span> : children}
      </button>
    </Tooltip>
  );
}

/** A button that is an icon; `label` is its name, and its tooltip. */
export function IconButton({ label, icon, className, small, ...rest }: Omit<ButtonProps, "children"> & { label: string; icon: IconName }) {
  return (
    <Button look="quiet" tooltip={label} {...rest} aria-label={label} className={cx("!px-0", small ? "size-6" : "size-7.5", className)}>
      {rest.busy ? null : <Icon name={icon} />}
    </Button>
  );
}

/** A link to another page ("/jobs/…", below the dashboard), or with `href="https://…"` away from here. */
export function Link({ href, className, children, ...rest }: { href: string } & Omit<ComponentProps<"a">, "href">) {
  const look = cx("text-accent underline-offset-2 hover:underline", className);
  if (/^[a-z]+:/i.test(href)) {
    // Only where a link may lead: `javascript:` in a stored field is text.
    if (!/^(https?|mailto):/i.test(href)) return <span className={className}>{children}</span>;
    return (
      <a href={href} target="_blank" rel="noreferrer noopener" className={look} {...rest}>
        {children}
      </a>
    );
  }
  return (
    <RouterLink href={href} className={look} {...rest}>
      {children}
    </RouterLink>
  );
}

/** A link that looks like a button. */
export function LinkButton({ href, look = "plain", icon, small, children }: { href: string; look?: Look; icon?: IconName; small?: boolean; children: ReactNode }) {
  return (
    <RouterLink
      href={href}
      className={cx(
        "inline-flex items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap",
        small ? "h-6 px-2 text-xs" : "h-7.5 px-3 text-sm",
        LOOKS[look],
      )}
    >
      {icon && <Icon name={icon} size={14} />}
      {children}
    </RouterLink>
  );
}

/** Copies a text; says so for a moment. */
export function Copy({ text, label = "Copy", children, small = true }: { text: string | (() => string); label?: string; children?: ReactNode; small?: boolean }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await writeClipboard(typeof text === "function" ? text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  if (children) {
    return (
      <Button look="quiet" small={small} icon={done ? "check" : "copy"} onClick={() => void copy()}>
        {done ? "Copied" : children}
      </Button>
    );
  }
  return <IconButton small={small} icon={done ? "check" : "copy"} label={done ? "Copied" : label} onClick={() => void copy()} />;
}

async function writeClipboard(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // without https there is no clipboard for pages but this one
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** For controls of one's own: tells whether one may, and why not. */
export function Disallowed({ op, children }: { op: string; children: (given: { disabled: boolean; reason: string | undefined }) => ReactNode }) {
  const rights = useRights();
  const disabled = !rights.can(op);
  return children({ disabled, reason: disabled ? rights.why(op) : undefined });
}
