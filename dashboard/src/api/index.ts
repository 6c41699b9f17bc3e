export { act, addressOf, get } from "./client";
export { type ActGiven, type ActOptions, type ApiOptions, type ByKey, type ListState, listOf, useAct, useApi, useApiWithEtag, usePages } from "./hooks";
export type { Change, Kind } from "./live";
export { type FieldError, Problem, asProblem } from "./problem";
export type { AnswerOf, BodyOf, ItemOf, ListPath, Method, Params, PathOf, Schema } from "./types";
