/** One field of a form made from a schema. */

import { useState } from "react";
import { parseJson, toJson } from "@/lib/json";
import { Button, IconButton } from "./button";
import { Checkbox, Input, Select, Textarea } from "./fields";
import { type JsonSchema, emptyOf, resolve, shapeOf } from "./schema";

interface FieldProps {
  name: string;
  path: string;
  schema: JsonSchema;
  root: JsonSchema;
  value: unknown;
  required: boolean;
  onChange: (value: unknown) => void;
  onValid?: (valid: boolean) => void;
  errorOf: (path: string) => string | undefined;
}

const DEEP = 4; // levels of objects and lists that are forms; what is deeper is JSON

export function SchemaField(props: FieldProps) {
  const { name, path, schema, root, value, required, onChange, errorOf } = props;
  const shape = shapeOf(schema, root);
  const own = shape && path.split(".").length <= DEEP ? shape.of : null;
  const common = { label: name, hint: own?.description ?? schema.description, error: errorOf(path), required };
  if (!own || !shape) return <JsonField {...props} />;
  const body = () => {
    if (own.const !== undefined) return <Input {...common} value={String(own.const)} onChange={() => {}} readOnly />;
    if (own.enum) {
      const chosen = own.enum.findIndex((each) => each === value);
      const options = own.enum.map((each, index) => ({ value: String(index), label: String(each) }));
      return <Select {...common} value={String(chosen)} options={chosen < 0 ? [{ value: "-1", label: "choose…" }, ...options] : options} onChange={(index) => onChange(own.enum![Number(index)])} />;
    }
    if (own.type === "boolean") return <Checkbox label={name} hint={common.hint} checked={value === true} onChange={onChange} />;
    if (own.type === "integer" || own.type === "number") return <NumberField {...props} own={own} />;
    if (own.type === "string") return <TextField {...props} own={own} />;
    if (own.type === "array" && own.items) return <ListField {...props} own={own} />;
    if (own.type === "object" && own.properties) return <ObjectField {...props} own={own} />;
    return <JsonField {...props} />;
  };
  if (!shape.nullable) return body();
  return (
    <div className="flex flex-col gap-1">
      {value === null || value === undefined ? (
        <Checkbox label={<span className="text-xs font-medium">{name}</span>} hint={`null${common.hint ? ` · ${String(common.hint)}` : ""}`} checked={false} onChange={() => onChange(emptyOf(own, root))} />
      ) : (
        <div className="flex items-start gap-1">
          <div className="min-w-0 grow">{body()}</div>
          <IconButton small label={`Set ${name} to null`} icon="cross" className="mt-5.5" onClick={() => onChange(null)} />
        </div>
      )}
    </div>
  );
}

function NumberField({ name, path, value, required, onChange, onValid, errorOf, own }: FieldProps & { own: JsonSchema }) {
  const [text, setText] = useState(value === undefined || value === null ? "" : String(value));
  const [wrong, setWrong] = useState<string | undefined>();
  const type = (wanted: string) => {
    setText(wanted);
    const whole = own.type === "integer";
    const fits = (whole ? /^-?\d+$/ : /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i).test(wanted.trim());
    setWrong(fits ? undefined : whole ? "a whole number" : "a number");
    onValid?.(fits);
    if (fits) onChange(whole && !Number.isSafeInteger(Number(wanted)) ? BigInt(wanted.trim()) : Number(wanted));
  };
  const range = own.minimum !== undefined || own.maximum !== undefined ? `${own.minimum ?? "…"} to ${own.maximum ?? "…"}` : undefined;
  return <Input label={name} hint={own.description ?? range} error={wrong ?? errorOf(path)} required={required} inputMode="decimal" value={text} onChange={type} />;
}

function TextField({ name, path, value, required, onChange, errorOf, own }: FieldProps & { own: JsonSchema }) {
  const text = typeof value === "string" ? value : value === undefined || value === null ? "" : String(value);
  const common = { label: name, error: errorOf(path), required, value: text, onChange, maxLength: own.maxLength };
  if (own.format === "password" || own.writeOnly) return <Input {...common} hint={own.description} type="password" autoComplete="new-password" />;
  if (own.format === "date-time") return <Input {...common} hint={own.description ?? "As 2026-02-22T14:03:00+01:00, or Z for UTC."} mono placeholder="2026-02-22T14:03:00Z" />;
  if (own.format === "date") return <Input {...common} hint={own.description} type="date" />;
  if (text.includes("\n") || text.length > 80) return <Textarea {...common} hint={own.description} rows={4} />;
  return <Input {...common} hint={own.description} />;
}

function ListField(props: FieldProps & { own: JsonSchema }) {
  const { name, path, root, value, onChange, own } = props;
  const items = Array.isArray(value) ? (value as unknown[]) : [];
  const schema = resolve(own.items!, root);
  return (
    <fieldset className="flex flex-col gap-2 border-l-2 pl-3">
      <legend className="text-xs font-medium">{name}</legend>
      {own.description && <p className="text-xs text-muted">{own.description}</p>}
      {items.map((each, index) => (
        <div key={index} className="flex items-start gap-1">
          <div className="min-w-0 grow">
            <SchemaField {...props} name={`${name} ${index + 1}`} path={`${path}.${index}`} schema={schema} value={each} required onChange={(given) => onChange(items.with(index, given))} />
          </div>
          <IconButton small label={`Remove ${name} ${index + 1}`} icon="trash" className="mt-5.5" onClick={() => onChange(items.toSpliced(index, 1))} />
        </div>
      ))}
      <div>
        <Button small icon="plus" onClick={() => onChange([...items, emptyOf(schema, root)])}>
          Add
        </Button>
      </div>
    </fieldset>
  );
}

function ObjectField(props: FieldProps & { own: JsonSchema }) {
  const { name, path, root, value, onChange, own } = props;
  const members = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return (
    <fieldset className="flex flex-col gap-2 border-l-2 pl-3">
      <legend className="text-xs font-medium">{name}</legend>
      {Object.entries(own.properties!).map(([each, schema]) => (
        <SchemaField {...props} key={each} name={each} path={`${path}.${each}`} schema={resolve(schema, root)} value={members[each]} required={own.required?.includes(each) ?? false} onChange={(given) => onChange({ ...members, [each]: given })} />
      ))}
    </fieldset>
  );
}

/** What has no form of its own. */
function JsonField({ name, path, schema, value, required, onChange, onValid, errorOf }: FieldProps) {
  const [text, setText] = useState(value === undefined ? "" : toJson(value, 2));
  const [wrong, setWrong] = useState<string | undefined>();
  const type = (wanted: string) => {
    setText(wanted);
    try {
      onChange(parseJson(wanted));
      setWrong(undefined);
      onValid?.(true);
    } catch (error) {
      setWrong((error as Error).message);
      onValid?.(false);
    }
  };
  return <Textarea label={name} hint={schema.description ?? "JSON"} error={wrong ?? errorOf(path)} required={required} mono rows={3} value={text} onChange={type} />;
}
