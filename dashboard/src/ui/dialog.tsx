/** Dialogs: native ones, so that the focus stays inside, Escape closes, and the rest of the page is out of reach. */

import { type FormEvent, type ReactNode, useContext, useEffect, useId, useRef, useState } from "react";
import { asProblem } from "@/api/problem";
import { cx } from "@/lib/classes";
import { Button, IconButton } from "./button";
import { Input } from "./fields";
import { ErrorPanel } from "./states";
import { DialogDepth, useOpenDialog } from "./still";

interface DialogProps {
  title: ReactNode;
  onClose: () => void;
  children: ReactNode;
  /** Buttons at the bottom; `footer` of a form has its submit button. */
  footer?: ReactNode;
  width?: "sm" | "md" | "lg";
  /** With this the whole is a form; Enter submits. */
  onSubmit?: () => void;
  /** As a sheet at the right side: for a peek at a row. */
  side?: boolean;
  /** Whether to ask before Escape or a click outside the dialog discards the form's input. Default: true. */
  asks?: boolean;
}

const WIDTHS = { sm: "max-w-md", md: "max-w-xl", lg: "max-w-3xl" };

/** Open as long as it is rendered: `{open && <Dialog title="…" onClose={…}>…</Dialog>}`. */
export function Dialog({ title, onClose, children, footer, width = "md", onSubmit, side, asks = true }: DialogProps) {
  const own = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [edited, setEdited] = useState(false);
  const [asking, setAsking] = useState(false);
  const depth = useContext(DialogDepth);
  useOpenDialog();
  // For Escape, a click outside the dialog and the close button. A form's own Cancel button discards without asking.
  const leave = () => {
    if (asking) setAsking(false);
    else if (edited && asks && onSubmit) setAsking(true);
    else onClose();
  };
  useEffect(() => {
    const dialog = own.current!;
    const before = document.activeElement;
    if (!dialog.open) dialog.showModal();
    // What the dialog is about, not the button that closes it.
    const first = dialog.querySelector<HTMLElement>("[data-autofocus]") ?? dialog.querySelector<HTMLElement>("[data-body] :is(input, textarea, select):not([type=hidden])");
    (first ?? dialog.querySelector<HTMLElement>("footer button:last-of-type") ?? dialog.querySelector<HTMLElement>("[data-body]"))?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const inner = (
    <>
      <header className="flex items-center gap-3 border-b px-4 py-2.5">
        <h2 id={id} className="min-w-0 grow truncate text-base font-semibold">
          {title}
        </h2>
        <IconButton label="Close" icon="cross" small onClick={leave} />
      </header>
      <div data-body tabIndex={-1} className="min-h-0 grow overflow-y-auto px-4 py-4 focus:outline-none">{children}</div>
      {asking && <Discard onKeep={() => setAsking(false)} onDiscard={onClose} />}
      {footer && <footer className={cx("flex flex-wrap items-center justify-end gap-2 border-t px-4 py-3", asking && "hidden")}>{footer}</footer>}
    </>
  );
  const shape = side
    ? "my-0 mr-0 ml-auto h-dvh max-h-none w-full max-w-2xl border-l"
    : cx("m-auto mt-[8vh] max-h-[84vh] w-[calc(100%-1.5rem)] rounded-lg border", WIDTHS[width]);
  return (
    <dialog
      ref={own}
      aria-labelledby={id}
      className={cx("overflow-hidden bg-raised p-0 shadow-pop", shape)}
      onCancel={(event) => {
        if (event.target !== own.current) return;
        event.preventDefault(); // who opened it closes it
        leave();
      }}
      onKeyDown={(event) => {
        // Runs before the browser's own handler, which closes a dialog at the second Escape even if the first was prevented.
        if (event.key !== "Escape" || event.defaultPrevented || event.nativeEvent.isComposing) return;
        event.preventDefault();
        event.stopPropagation();
        leave();
      }}
      onMouseDown={(event) => event.target === own.current && outside(event, own.current) && leave()}
    >
      <DialogDepth value={depth + 1}>
      {onSubmit ? (
        <form
          noValidate
          className={cx("flex flex-col", side ? "h-full" : "max-h-[84vh]")}
          onChange={() => setEdited(true)}
          onClick={(event) => (event.target as Element).closest("[role=switch]") && setEdited(true)}
          onSubmit={(event: FormEvent) => {
            event.preventDefault();
            event.stopPropagation();
            onSubmit();
          }}
        >
          {inner}
        </form>
      ) : (
        <div className={cx("flex flex-col", side ? "h-full" : "max-h-[84vh]")}>{inner}</div>
      )}
      </DialogDepth>
    </dialog>
  );
}

/** Asks before what was entered is lost. */
function Discard({ onKeep, onDiscard }: { onKeep: () => void; onDiscard: () => void }) {
  return (
    <div role="alertdialog" aria-label="Discard your changes?" className="flex flex-wrap items-center justify-end gap-2 border-t bg-warn-soft px-4 py-3">
      <p className="mr-auto font-medium text-warn">Discard your changes?</p>
      <Button onClick={onKeep} autoFocus>
        Keep editing
      </Button>
      <Button look="danger" onClick={onDiscard}>
        Discard
      </Button>
    </div>
  );
}

function outside(event: { clientX: number; clientY: number }, dialog: HTMLElement): boolean {
  const box = dialog.getBoundingClientRect();
  return event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom;
}

interface ConfirmProps {
  title: string;
  /** What happens then, in a sentence. */
  children: ReactNode;
  /** The word on the button: a verb. */
  action: string;
  danger?: boolean;
  /** What must be typed first, for what cannot be undone. */
  typed?: string;
  onConfirm: () => unknown;
  onClose: () => void;
}

/** Asks before something is done. A promise that `onConfirm` gives is waited for; its error is shown. */
export function Confirm({ title, children, action, danger, typed, onConfirm, onClose }: ConfirmProps) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const confirm = async () => {
    if (busy || (typed && text !== typed)) return;
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (problem) {
      setError(asProblem(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      width="sm"
      asks={false}
      onClose={onClose}
      onSubmit={() => void confirm()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look={danger ? "danger" : "primary"} busy={busy} data-autofocus={typed ? undefined : true} disabledWhy={typed && text !== typed && "Type the name first"}>
            {action}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <div className="wrap-anywhere">{children}</div>
        {typed && <Input label={`Type “${typed}” to go on`} value={text} onChange={setText} autoFocus />}
        {error && <ErrorPanel problem={error} compact />}
      </div>
    </Dialog>
  );
}
