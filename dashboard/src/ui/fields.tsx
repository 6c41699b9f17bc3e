/** Fields of forms: each with a label, a hint, and what is wrong with it. */

import { type ComponentProps, type ReactNode, useId } from "react";
import { cx } from "@/lib/classes";
import { useRights } from "@/lib/rights";
import { Tooltip } from "./tooltip";

const BOX =
  "w-full rounded-md border border-line-strong bg-page px-2 text-sm text-text aria-invalid:border-bad disabled:opacity-60 [&:user-invalid]:border-bad";

interface Common {
  label: ReactNode;
  /** Said below it, in grey. */
  hint?: ReactNode;
  error?: ReactNode;
  /** The label is for screen readers only: where the place says what it is. */
  hideLabel?: boolean;
  className?: string;
}

/** A label, and below it whatever `children` renders with the ids it is given. */
export function Field({ label, hint, error, hideLabel, className, required, children }: Common & { required?: boolean; children: (ids: { id: string; "aria-describedby"?: string; "aria-invalid"?: true }) => ReactNode }) {
  const id = useId();
  const said = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className={cx("flex min-w-0 flex-col gap-1", className)}>
      <label htmlFor={id} className={hideLabel ? "sr-only" : "text-xs font-medium"}>
        {label}
        {required && <span className="text-muted"> (required)</span>}
      </label>
      {children({ id, "aria-describedby": said || undefined, "aria-invalid": error ? true : undefined })}
      {hint && (
        <p id={`${id}-hint`} className="text-xs text-muted">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} className="text-xs text-bad" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

type Plain<T extends "input" | "textarea" | "select"> = Omit<ComponentProps<T>, "onChange" | "value" | "className" | "id">;

export function Input({ label, hint, error, hideLabel, className, value, onChange, mono, ...rest }: Common & Plain<"input"> & { value: string; onChange: (value: string) => void; mono?: boolean }) {
  return (
    <Field {...{ label, hint, error, hideLabel, className }} required={rest.required}>
      {(ids) => <input autoComplete="off" spellCheck={false} {...rest} {...ids} value={value} onChange={(event) => onChange(event.target.value)} className={cx(BOX, "h-7.5", mono && "font-mono text-xs")} />}
    </Field>
  );
}

export function Textarea({ label, hint, error, hideLabel, className, value, onChange, mono, ...rest }: Common & Plain<"textarea"> & { value: string; onChange: (value: string) => void; mono?: boolean }) {
  return (
    <Field {...{ label, hint, error, hideLabel, className }} required={rest.required}>
      {(ids) => <textarea rows={5} spellCheck={false} {...rest} {...ids} value={value} onChange={(event) => onChange(event.target.value)} className={cx(BOX, "min-h-16 py-1.5", mono && "font-mono text-xs leading-5")} />}
    </Field>
  );
}

export type Option = string | { value: string; label: string };

export function Select({ label, hint, error, hideLabel, className, value, onChange, options, ...rest }: Common & Plain<"select"> & { value: string; onChange: (value: string) => void; options: Option[] }) {
  return (
    <Field {...{ label, hint, error, hideLabel, className }} required={rest.required}>
      {(ids) => (
        <select {...rest} {...ids} value={value} onChange={(event) => onChange(event.target.value)} className={cx(BOX, "h-7.5 pr-6")}>
          {options.map((each) => {
            const { value: name, label: words } = typeof each === "string" ? { value: each, label: each } : each;
            return (
              <option key={name} value={name}>
                {words}
              </option>
            );
          })}
        </select>
      )}
    </Field>
  );
}

export function Checkbox({ label, hint, checked, onChange, indeterminate, hideLabel, disabled }: Omit<Common, "error"> & { checked: boolean; onChange: (checked: boolean) => void; indeterminate?: boolean; disabled?: boolean }) {
  const id = useId();
  return (
    <label className="inline-flex items-start gap-2">
      <input
        type="checkbox"
        disabled={disabled}
        checked={checked}
        aria-describedby={hint ? id : undefined}
        ref={(box) => {
          if (box) box.indeterminate = indeterminate ?? false;
        }}
        onChange={(event) => onChange(event.target.checked)}
        className="mt-0.75 size-3.5 accent-accent-fill"
      />
      <span className={hideLabel ? "sr-only" : "flex flex-col"}>
        {label}
        {hint && (
          <span id={id} className="text-xs text-muted">
            {hint}
          </span>
        )}
      </span>
    </label>
  );
}

/** On or off, at once. With `op` it is disabled, and says why, for who may not. */
export function Switch({ label, checked, onChange, op, hideLabel, busy, disabledWhy }: { label: string; checked: boolean; onChange: (checked: boolean) => void; op?: string; hideLabel?: boolean; busy?: boolean; disabledWhy?: string | false }) {
  const rights = useRights();
  const why = op && !rights.can(op) ? rights.why(op) : disabledWhy || undefined;
  const off = Boolean(why) || busy;
  return (
    <Tooltip words={why}>
      <button
        type="button"
        role="switch"
        aria-checked={checked}
        aria-disabled={off || undefined}
        aria-label={hideLabel ? label : undefined}
        onClick={() => !off && onChange(!checked)}
        className={cx("inline-flex items-center gap-2 rounded-full align-middle text-sm", off && "cursor-not-allowed opacity-60")}
      >
        <span className={cx("relative h-4.5 w-8 shrink-0 rounded-full border transition-colors", checked ? "border-transparent bg-accent-fill" : "border-line-strong bg-active")}>
          <span className={cx("absolute top-0.5 size-3 rounded-full transition-[left]", checked ? "left-4 bg-on-accent" : "left-0.5 bg-muted")} />
        </span>
        {!hideLabel && label}
      </button>
    </Tooltip>
  );
}
