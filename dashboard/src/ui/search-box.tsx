/** One line of search with qualifiers (`state:failed task:send_*`), completed as one types. */

import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import { cx } from "@/lib/classes";
import { useKeys } from "@/lib/keys";
import { IconButton } from "./button";
import { Icon } from "./icons";

export interface Qualifier {
  /** Without the colon: "state"; one that ends with "." takes a path, as "payload.". */
  name: string;
  help: string;
  /** Values to offer: a list, or what is found for what was typed so far. */
  values?: readonly string[] | ((typed: string) => Promise<readonly string[]> | readonly string[]);
  /** Several can be given, with commas. */
  several?: boolean;
}

interface Suggestion {
  text: string;
  help: string;
  /** What the word at the cursor becomes. */
  becomes: string;
  /** Whether one goes on typing there. */
  open: boolean;
}

interface SearchBoxProps {
  label: string;
  value: string;
  /** Called with Enter, when a suggestion completes a word, and a while after the last key. */
  onChange: (value: string) => void;
  qualifiers?: Qualifier[];
  placeholder?: string;
  /** What is wrong with it, as the server said. */
  error?: string | null;
  /** `/` puts the cursor here; true unless said otherwise. */
  slash?: boolean;
}

const QUIET_MS = 400;

export function SearchBox({ label, value, onChange, qualifiers = [], placeholder, error, slash = true }: SearchBoxProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const [caret, setCaret] = useState(value.length);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const [values, setValues] = useState<readonly string[]>([]);
  const told = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const cursor = useRef<number | null>(null);

  useEffect(() => {
    if (value === told.current) return; // somebody else has changed it: the back button, a facet
    told.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  // At once: a frame later the next key may have come, and would be put in the wrong place.
  useLayoutEffect(() => {
    if (cursor.current !== null) input.current?.setSelectionRange(cursor.current, cursor.current);
    cursor.current = null;
  });
  useKeys(slash ? [{ keys: "/", does: "Search", run: () => (input.current?.focus(), input.current?.select()), group: "Everywhere" }] : []);

  const word = useMemo(() => wordAt(text, caret), [text, caret]);
  const [name, typed] = word.text.includes(":") ? [word.text.slice(0, word.text.indexOf(":")), word.text.slice(word.text.indexOf(":") + 1)] : [null, word.text];
  const qualifier = name === null ? undefined : qualifiers.find((each) => each.name === name);
  const part = qualifier?.several ? typed.slice(typed.lastIndexOf(",") + 1) : typed;

  useEffect(() => {
    let current = true;
    const source = qualifier?.values;
    if (!open || !source) return setValues([]);
    const found = typeof source === "function" ? source(part) : source;
    void Promise.resolve(found).then(
      (all) => current && setValues(all),
      () => current && setValues([]),
    );
    return () => {
      current = false;
    };
  }, [qualifier, part, open]);

  const suggestions = useMemo((): Suggestion[] => {
    if (name === null) {
      return qualifiers
        .filter((each) => each.name.startsWith(typed))
        .map((each) => ({ text: each.name.endsWith(".") ? `${each.name}…` : `${each.name}:`, help: each.help, becomes: each.name.endsWith(".") ? each.name : `${each.name}:`, open: true }));
    }
    const before = word.text.slice(0, word.text.length - part.length);
    return values
      .filter((each) => each.toLowerCase().includes(part.toLowerCase()) && each !== part)
      .slice(0, 12)
      .map((each) => ({ text: each, help: "", becomes: before + (/[\s",]/.test(each) ? JSON.stringify(each) : each), open: false }));
  }, [name, typed, part, values, qualifiers, word.text]);
  const shown = open && suggestions.length > 0;

  const tell = (wanted: string) => {
    clearTimeout(timer.current);
    if (wanted.trim() === told.current) return;
    told.current = wanted.trim();
    onChange(wanted.trim());
  };
  const type = (wanted: string, place: number) => {
    setText(wanted);
    setCaret(place);
    setAt(-1);
    setOpen(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => tell(wanted), QUIET_MS);
  };
  const take = (suggestion: Suggestion) => {
    const end = suggestion.open ? "" : text.slice(word.end).startsWith(" ") ? "" : " ";
    const wanted = text.slice(0, word.start) + suggestion.becomes + end + text.slice(word.end);
    const place = word.start + suggestion.becomes.length + end.length;
    type(wanted, place);
    if (!suggestion.open) tell(wanted);
    cursor.current = place;
    input.current?.focus();
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!suggestions.length) return;
      setOpen(true);
      setAt((at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + suggestions.length) % suggestions.length);
    } else if (event.key === "Tab" && shown && !event.shiftKey && word.text) take(suggestions[Math.max(0, at)]!);
    else if (event.key === "Enter") {
      if (shown && at >= 0) take(suggestions[at]!);
      else {
        setOpen(false);
        tell(text);
      }
    } else if (event.key === "Escape") {
      if (shown) setOpen(false);
      else input.current?.blur();
    } else return;
    event.preventDefault();
  };
  return (
    <div className="relative min-w-0 grow">
      <span className="pointer-events-none absolute top-1.75 left-2 text-faint">
        <Icon name="search" />
      </span>
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={shown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown && at >= 0 ? `${id}-${at}` : undefined}
        aria-invalid={error ? true : undefined}
        aria-describedby={error ? `${id}-error` : undefined}
        autoComplete="off"
        spellCheck={false}
        value={text}
        placeholder={placeholder}
        onChange={(event) => type(event.target.value, event.target.selectionStart ?? event.target.value.length)}
        onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
        onFocus={() => setOpen(true)}
        onBlur={() => {
          setOpen(false);
          tell(text);
        }}
        onKeyDown={onKeyDown}
        className="h-7.5 w-full rounded-md border border-line-strong bg-page pr-8 pl-8 font-mono text-xs placeholder:font-sans aria-invalid:border-bad"
      />
      {text && <IconButton small label="Clear the search" icon="cross" className="!absolute top-0.75 right-1" onClick={() => (type("", 0), tell(""), input.current?.focus())} />}
      {error && (
        <p id={`${id}-error`} role="alert" className="pt-1 text-xs wrap-anywhere text-bad">
          {error}
        </p>
      )}
      <ul id={`${id}-list`} role="listbox" aria-label="Suggestions" hidden={!shown} className="absolute top-8.5 left-0 z-30 max-h-72 w-full max-w-lg overflow-y-auto rounded-md border bg-raised p-1 shadow-pop">
        {shown &&
          suggestions.map((each, index) => (
            <li
              key={each.text}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === at}
              // Before the field loses the focus.
              onPointerDown={(event) => (event.preventDefault(), take(each))}
              className={cx("flex cursor-pointer items-baseline gap-3 rounded-sm px-2 py-1", index === at ? "bg-active" : "hover:bg-hover")}
            >
              <span className="font-mono text-xs">{each.text}</span>
              <span className="truncate text-xs text-muted">{each.help}</span>
            </li>
          ))}
      </ul>
    </div>
  );
}

/** The word that the cursor is in; quotes hold words together. */
function wordAt(text: string, caret: number): { start: number; end: number; text: string } {
  let start = 0;
  let quoted = false;
  for (let index = 0; index < caret; index++) {
    if (text[index] === '"') quoted = !quoted;
    else if (text[index] === " " && !quoted) start = index + 1;
  }
  let end = caret;
  while (end < text.length && text[end] !== " ") end++;
  return { start, end, text: text.slice(start, caret) };
}
