/** JSON as text that can be folded; never as markup. */

import { useState } from "react";
import { toJson, visible } from "@/lib/json";
import { Copy } from "./button";
import { Icon } from "./icons";

const MOST = 100; // members that are shown at once
const LONG = 500; // characters of a text

export function Json({ value, label = "JSON", open = 2 }: { value: unknown; label?: string; open?: number }) {
  return (
    <div className="group relative rounded-md border bg-sunken">
      <div role="group" aria-label={label} tabIndex={0} className="max-h-[60vh] overflow-auto p-3 pr-10 font-mono text-xs leading-5">
        <Node value={value} depth={0} open={open} />
      </div>
      <div className="absolute top-1.5 right-1.5">
        <Copy text={() => toJson(value, 2)} label="Copy as JSON" />
      </div>
    </div>
  );
}

function Node({ name, value, depth, open, last = true }: { name?: string; value: unknown; depth: number; open: number; last?: boolean }) {
  const [shown, setShown] = useState(depth < open);
  const [most, setMost] = useState(MOST);
  const key = name === undefined ? null : <span className="text-accent">{visible(JSON.stringify(name))}: </span>;
  const comma = last ? "" : ",";
  if (value === null || typeof value !== "object") {
    return (
      <div className="pl-4 wrap-anywhere whitespace-pre-wrap">
        {key}
        <Leaf value={value} />
        {comma}
      </div>
    );
  }
  const list = Array.isArray(value);
  const members: [string | undefined, unknown][] = list ? value.map((each) => [undefined, each]) : Object.entries(value);
  const [left, right] = list ? ["[", "]"] : ["{", "}"];
  if (members.length === 0) return <div className="pl-4">{key}{left}{right}{comma}</div>;
  return (
    <div className="pl-4">
      <button type="button" aria-expanded={shown} onClick={() => setShown(!shown)} className="-ml-4 inline-flex items-center text-left hover:bg-hover">
        <Icon name={shown ? "down" : "right"} size={12} className="mr-1 text-faint" />
        {key}
        {left}
        {!shown && (
          <span className="text-faint">
            {" "}
            {members.length} {list ? "items" : "members"} {right}
            {comma}
          </span>
        )}
      </button>
      {shown && (
        <>
          {members.slice(0, most).map(([each, inner], index) => (
            <Node key={each ?? index} name={each} value={inner} depth={depth + 1} open={open} last={index === members.length - 1} />
          ))}
          {members.length > most && (
            <button type="button" className="pl-4 text-accent hover:underline" onClick={() => setMost(most + 1000)}>
              … {members.length - most} more
            </button>
          )}
          <div>
            {right}
            {comma}
          </div>
        </>
      )}
    </div>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  if (typeof value === "string") {
    const text = visible(JSON.stringify(value));
    const cut = !whole && text.length > LONG;
    return (
      <span className="text-ok">
        {cut ? text.slice(0, LONG) : text}
        {cut && (
          <button type="button" className="text-accent hover:underline" onClick={() => setWhole(true)}>
            … {text.length - LONG} more characters
          </button>
        )}
      </span>
    );
  }
  return <span className={value === null ? "text-faint" : "text-info"}>{String(value)}</span>;
}
