/** The action that the caller of a rejected request should take. */
export type ProblemAction = "retry" | "fix_request" | "fix_clock" | "renew" | "reenroll" | "stop";

/** One fault of a request: its path, and what was expected. Never quotes the value. */
export interface FieldError {
  path: string;
  message: string;
  /** Position in a text, counted from 1. */
  line?: number;
  column?: number;
}

/** The optional parts of a problem. `detail` is public; `cause` is only logged. */
export interface ProblemOptions {
  detail?: string;
  cause?: unknown;
  errors?: readonly FieldError[];
  /** Members besides the standard ones (RFC 9457, 3.2), such as `server_time`. */
  extensions?: Readonly<Record<string, unknown>>;
  retryAfterSeconds?: number;
}

/** A refusal with a stable code of a program's catalog. Each transport translates it in one place. */
export class CodedProblem<Code extends string = string> extends Error {
  readonly code: Code;
  readonly options: Readonly<ProblemOptions>;

  constructor(code: Code, options: ProblemOptions = {}) {
    super(
      options.detail ?? code,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = "Problem";
    this.code = code;
    this.options = options;
  }
}
