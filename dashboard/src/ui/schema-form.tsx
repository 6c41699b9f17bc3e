/** A form made from a JSON Schema, as pydantic writes them; what has no form is edited as JSON. */

import { useMemo, useState } from "react";
import { parseJson, toJson } from "@/lib/json";
import { Button } from "./button";
import { Checkbox, Textarea } from "./fields";
import { SchemaField } from "./schema-field";
import { type JsonSchema, emptyOf, resolve } from "./schema";

interface SchemaFormProps {
  schema: JsonSchema | null | undefined;
  value: Record<string, unknown>;
  onChange: (value: Record<string, unknown>) => void;
  /** Whether what is in the form can be sent: false while the JSON is not JSON, or a number not a number. */
  onValid?: (valid: boolean) => void;
  /** What the server said of a field, by its path: "user.id". */
  errors?: { field: string; detail: string }[];
}

/** `<SchemaForm schema={task.schema} value={payload} onChange={setPayload} errors={problem?.errors} />` */
export function SchemaForm({ schema, value, onChange, onValid, errors = [] }: SchemaFormProps) {
  const whole = useMemo(() => (schema ? resolve(schema, schema) : null), [schema]);
  const names = Object.keys(whole?.properties ?? {});
  const formless = !schema || !whole || (names.length === 0 && whole.additionalProperties !== false && Object.keys(value).length > 0) || whole.additionalProperties === true;
  const [raw, setRaw] = useState(formless);
  const [text, setText] = useState(() => toJson(value, 2));
  const [wrong, setWrong] = useState<string | null>(null);
  const errorOf = (path: string) => errors.find((each) => trimmed(each.field) === path)?.detail;
  const known = new Set<string>();
  const collect = (path: string) => void known.add(path);

  const switchTo = (json: boolean) => {
    if (json) setText(toJson(value, 2));
    setWrong(null);
    onValid?.(true);
    setRaw(json);
  };
  const typeJson = (wanted: string) => {
    setText(wanted);
    try {
      const parsed = parseJson(wanted);
      if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new Error("the payload must be an object: { … }");
      setWrong(null);
      onValid?.(true);
      onChange(parsed as Record<string, unknown>);
    } catch (error) {
      setWrong((error as Error).message);
      onValid?.(false);
    }
  };
  const rest = errors.filter((each) => !names.some((name) => trimmed(each.field) === name || trimmed(each.field).startsWith(`${name}.`)));
  return (
    <div className="flex flex-col gap-3">
      {whole && !formless && (
        <div className="flex items-center justify-between">
          <span className="text-xs text-muted">{raw ? "The payload as JSON" : names.length ? "" : "This task takes no arguments."}</span>
          <Button small look="quiet" onClick={() => switchTo(!raw)} disabledWhy={raw && wrong ? "The JSON cannot be read: mend it first" : false}>
            {raw ? "Edit as a form" : "Edit as JSON"}
          </Button>
        </div>
      )}
      {raw || !whole ? (
        <Textarea label="Payload" hideLabel={!formless} mono rows={12} value={text} onChange={typeJson} error={wrong} hint={formless && !wrong ? "JSON, an object." : undefined} />
      ) : (
        names.map((name) => {
          collect(name);
          const field = resolve(whole.properties![name]!, schema!);
          const required = whole.required?.includes(name) ?? false;
          const set = (given: unknown) => {
            const next = { ...value };
            if (given === undefined) delete next[name];
            else next[name] = given;
            onChange(next);
          };
          const form = <SchemaField name={name} path={name} schema={field} root={schema!} value={value[name]} required={required} onChange={set} onValid={onValid} errorOf={errorOf} />;
          if (required || !("default" in field) || name in value) return <div key={name}>{form}</div>;
          return (
            <Checkbox
              key={name}
              label={<span className="text-xs font-medium">{name}</span>}
              hint={`left out: ${toJson(field.default)}`}
              checked={false}
              onChange={() => set(field.default ?? emptyOf(field, schema!))}
            />
          );
        })
      )}
      {rest.map((each) => (
        <p key={each.field} role="alert" className="text-xs wrap-anywhere text-bad">
          {each.field && <code className="font-mono">{trimmed(each.field)}</code>} {each.detail}
        </p>
      ))}
    </div>
  );
}

function trimmed(field: string): string {
  return field.replace(/^(body\.)?(payload|changes)\.?/, "").replace(/^body\./, "");
}
