import type { ProblemAction } from "../../kit/problem.ts";
import { cutText } from "../../proto/management/text.ts";

/** What core said, or that nothing came. */
export interface ManagementFailure {
  /** Core's stable code (RFC 9457 `code`), or `unreachable`, `server_untrusted`, `timeout`, `redirected`, `not_core`, `answer_invalid`. */
  code: string;
  /** One line, safe to print: no control characters, no part of the request. */
  message: string;
  /** What helps, as core says; `retry` when nothing came. */
  action: ProblemAction;
  /** Undefined when there was no answer. */
  status?: number;
  retryAfterSeconds?: number;
  /** Core's clock, told with `clock_skew`. */
  serverTime?: string;
  /** The newest `sent_at` core knows, told with `stale_request`. */
  lastSentAt?: string;
}

/** A management request that did not succeed. */
export class ManagementError extends Error {
  override readonly name = "ManagementError";
  readonly failure: Readonly<ManagementFailure>;

  constructor(failure: ManagementFailure, options?: ErrorOptions) {
    super(`${failure.code}: ${failure.message}`, options);
    this.failure = failure;
  }
}

const actions: readonly string[] = ["retry", "fix_request", "fix_clock", "renew", "reenroll", "stop"];
const isAction = (value: unknown): value is ProblemAction => typeof value === "string" && actions.includes(value);

/** An answer as the transport gives it. */
export interface Answer {
  status: number;
  contentType: string;
  retryAfter: string | undefined;
  text: string;
}

/** The failure that an answer other than 2xx states. Whatever the body holds, the result is short and printable. */
export const failureOf = (answer: Answer): ManagementFailure => {
  const { status } = answer;
  if (status >= 300 && status < 400)
    return {
      code: "redirected",
      status,
      action: "stop",
      message: "the server redirects, which is not followed; give core's own URL",
    };
  const problem = parseObject(answer);
  const text = (name: string): string | undefined => {
    const value = problem?.[name];
    return typeof value === "string" ? cutText(value.toWellFormed(), 500) : undefined;
  };
  const code = text("code");
  const retryAfterSeconds = retryAfter(answer.retryAfter);
  const serverTime = text("server_time");
  const lastSentAt = text("last_sent_at");
  const passing = status === 429 || status >= 500;
  return {
    code: code !== undefined && /^[a-z0-9_]{1,64}$/.test(code) ? code : "not_core",
    message: text("detail") ?? text("title") ?? `HTTP ${status} without an explanation; is this core's URL?`,
    action: isAction(problem?.action) ? problem.action : passing ? "retry" : "stop",
    status,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(serverTime === undefined ? {} : { serverTime }),
    ...(lastSentAt === undefined ? {} : { lastSentAt }),
  };
};

/** `Retry-After` in seconds, at most an hour; dates are not understood. */
const retryAfter = (header: string | undefined): number | undefined =>
  header !== undefined && /^\d{1,9}$/.test(header) ? Math.min(Number(header), 3600) : undefined;

/** The JSON object that an answer is; undefined if it is none. */
export const parseObject = ({ contentType, text }: Answer): Record<string, unknown> | undefined => {
  if (!/^application\/([a-z.]+\+)?json\b/i.test(contentType)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
};
