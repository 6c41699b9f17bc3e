/** JSON Schema, as far as forms need it. */

export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  format?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  writeOnly?: boolean;
}

/** A schema with its reference followed; references that lead nowhere, or in a circle, are taken for anything. */
export function resolve(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let found = schema;
  for (let turns = 0; turns < 20; turns++) {
    if (found.allOf?.length === 1) found = { ...found, allOf: undefined, ...found.allOf[0]! };
    const name = found.$ref?.match(/^#\/\$defs\/(.+)$/)?.[1];
    if (found.$ref === undefined) return found;
    const target = name === undefined ? undefined : root.$defs?.[decodeURIComponent(name)];
    const { $ref: _, ...own } = found;
    found = { ...target, ...own };
  }
  return {};
}

/** The one type beside null that a schema allows, and whether null is allowed; null: it has no form of its own. */
export function shapeOf(schema: JsonSchema, root: JsonSchema): { of: JsonSchema; nullable: boolean } | null {
  const options = schema.anyOf ?? schema.oneOf;
  if (options) {
    const others = options.map((each) => resolve(each, root)).filter((each) => each.type !== "null");
    const nullable = others.length < options.length;
    const [only] = others;
    if (others.length === 1 && only) return { of: { ...only, description: schema.description ?? only.description, default: schema.default }, nullable };
    return null;
  }
  if (Array.isArray(schema.type)) {
    const others = schema.type.filter((each) => each !== "null");
    return others.length === 1 ? { of: { ...schema, type: others[0] }, nullable: others.length < schema.type.length } : null;
  }
  return { of: schema, nullable: false };
}

/** What a field begins with when somebody wants to fill it in. */
export function emptyOf(schema: JsonSchema, root: JsonSchema): unknown {
  const shape = shapeOf(schema, root);
  if (!shape) return null;
  const { of } = shape;
  if (of.const !== undefined) return of.const;
  if (of.enum) return of.enum[0];
  switch (of.type) {
    case "string":
      return "";
    case "integer":
    case "number":
      return of.minimum ?? 0;
    case "boolean":
      return false;
    case "array":
      return [];
    case "object":
      return Object.fromEntries((of.required ?? []).map((name) => [name, emptyOf(resolve(of.properties?.[name] ?? {}, root), root)]));
    default:
      return null;
  }
}
