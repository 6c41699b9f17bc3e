/** What is wrong with a request, as the server says it (`application/problem+json`), or as the network does. */

export interface FieldError {
  field: string;
  code: string;
  detail: string;
}

/** Every error of a request. Decide by `code`, show `message`. */
export class Problem extends Error {
  override name = "Problem";
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly requestId: string | null = null,
    readonly errors: FieldError[] = [],
    readonly retryAfterS: number | null = null,
  ) {
    super(detail);
  }

  /** The server could not be reached at all. */
  get offline(): boolean {
    return this.status === 0;
  }

  /** What is wrong with a field of the body; names are compared without `body.` before them. */
  field(name: string): string | undefined {
    return this.errors.find((each) => each.field.replace(/^(body|query|path)\./, "") === name)?.detail;
  }
}

/** Reads an answer that is not ok. */
export async function problemOf(answer: Response): Promise<Problem> {
  const after = Number(answer.headers.get("retry-after"));
  const retryAfterS = Number.isFinite(after) && after > 0 ? after : null;
  try {
    const body = (await answer.json()) as Record<string, unknown>;
    return new Problem(
      answer.status,
      typeof body.code === "string" ? body.code : "error",
      typeof body.detail === "string" ? body.detail : `the server answered ${answer.status}`,
      typeof body.request_id === "string" ? body.request_id : null,
      Array.isArray(body.errors) ? (body.errors as FieldError[]) : [],
      retryAfterS,
    );
  } catch {
    return new Problem(answer.status, "error", `the server answered ${answer.status} ${answer.statusText}`.trim(), null, [], retryAfterS);
  }
}

/** Any error as a Problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, "unexpected", error instanceof Error ? error.message : String(error));
}
