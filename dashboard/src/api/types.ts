/** What each operation of the API takes and answers, read out of the generated schema. */

import type { components, paths } from "./schema";

type Method = "get" | "post" | "put" | "patch" | "delete";

/** Paths that know a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends { [K in M]: infer Op } ? (Op extends object ? P : never) : never;
}[keyof paths];

type Op<M extends Method, P extends keyof paths> = paths[P] extends { [K in M]: infer O } ? O : never;
type Defined<T> = Exclude<T, undefined>;
type Part<T, K extends string> = T extends { parameters: { [X in K]?: infer V } } ? Defined<V> : never;
type Clean<T> = { [K in keyof T as T[K] extends never ? never : K]: T[K] };

/** The query and the path's parts of an operation. */
export type ParamsOf<M extends Method, P extends keyof paths> = Clean<{
  query: [Part<Op<M, P>, "query">] extends [never] ? never : Part<Op<M, P>, "query">;
  path: [Part<Op<M, P>, "path">] extends [never] ? never : Part<Op<M, P>, "path">;
}>;

/** What hooks take: `query` may always be left out. */
export type Params<M extends Method, P extends keyof paths> = Partial<ParamsOf<M, P>>;

/** The body that an operation takes, as JSON. */
export type BodyOf<M extends Method, P extends keyof paths> =
  Op<M, P> extends { requestBody?: infer R } ? (Defined<R> extends { content: { "application/json": infer B } } ? B : undefined) : undefined;

type Json<R> = R extends { content: { "application/json": infer B } } ? B : undefined;

/** What an operation answers with when all is well. */
export type AnswerOf<M extends Method, P extends keyof paths> =
  Op<M, P> extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202 | 204)]> : never;

/** One item of a list's pages. */
export type ItemOf<P extends keyof paths> = AnswerOf<"get", P> extends { items: (infer T)[] } ? T : never;

/** Paths whose answer is a page of a list. */
export type ListPath = { [P in PathOf<"get">]: AnswerOf<"get", P> extends { items: unknown[] } ? P : never }[PathOf<"get">];

/** A named schema of the document: `Schema<"JobDetail">`. */
export type Schema<N extends keyof components["schemas"]> = components["schemas"][N];

export type { Method };
