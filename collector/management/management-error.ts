import { jsonLimits, parseForeignJson } from "#kit/foreign-json.ts";
import type { ProblemAction } from "#kit/problem.ts";
import { cutText, isRecord } from "#proto/values.ts";

/** Why a management request failed. */
export interface ManagementFailure {
  /** Core's stable code (RFC 9457 `code`), or `unreachable`, `server_untrusted`, `timeout`, `redirected`, `not_core`, `answer_invalid`. */
  code: string;
  /** One line, safe to print: no control characters, no part of the request. */
  message: string;
  /** The action that core advises; `retry` without a response. */
  action: ProblemAction;
  /** Undefined without a response. */
  status?: number;
  retryAfterSeconds?: number;
  /** Core's clock, with `clock_skew`. */
  serverTime?: string;
  /** The newest `sent_at` that core accepted, with `stale_request`. */
  lastSentAt?: string;
}

/** A management request failed. */
export class ManagementError extends Error {
  override readonly name = "ManagementError";
  readonly failure: Readonly<ManagementFailure>;

  constructor(failure: ManagementFailure, options?: ErrorOptions) {
    super(`${failure.code}: ${failure.message}`, options);
    this.failure = failure;
  }
}

const actions: readonly string[] = [
  "retry",
  "fix_request",
  "fix_clock",
  "renew",
  "reenroll",
  "stop",
];
const isAction = (value: unknown): value is ProblemAction =>
  typeof value === "string" && actions.includes(value);

/** A response, of any status. */
export interface ManagementResponse {
  status: number;
  contentType: string;
  retryAfter: string | undefined;
  date?: string | undefined;
  text: string;
}

/** Returns the failure of a response other than 2xx. Its texts are short and printable for any body. */
export const failureOfResponse = (response: ManagementResponse): ManagementFailure => {
  const { status } = response;
  if (status >= 300 && status < 400)
    return {
      code: "redirected",
      status,
      action: "stop",
      message: "the server redirects, and redirects are not followed; use core's own URL",
    };
  const problem = parseObject(response);
  const text = (name: string) => {
    const value = problem?.[name];
    return typeof value === "string" ? cutText(value.toWellFormed(), 500) : undefined;
  };
  const code = text("code");
  const retryAfterSeconds = parseRetryAfter(response.retryAfter);
  const serverTime = text("server_time");
  const lastSentAt = text("last_sent_at");
  const defaultAction = status === 429 || status >= 500 ? "retry" : "stop";
  return {
    code: code !== undefined && /^[a-z0-9_]{1,64}$/.test(code) ? code : "not_core",
    message:
      text("detail") ??
      text("title") ??
      `HTTP ${status} without an explanation; check that the URL is core's`,
    action: isAction(problem?.action) ? problem.action : defaultAction,
    status,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(serverTime === undefined ? {} : { serverTime }),
    ...(lastSentAt === undefined ? {} : { lastSentAt }),
  };
};

/** Parses `Retry-After` in seconds, at most an hour. Ignores dates. */
const parseRetryAfter = (header: string | undefined): number | undefined =>
  header !== undefined && /^\d{1,9}$/.test(header) ? Math.min(Number(header), 3600) : undefined;

/** Parses a response as a JSON object; undefined if it is none. */
export const parseObject = ({
  contentType,
  text,
}: ManagementResponse): Record<string, unknown> | undefined => {
  if (!/^application\/([a-z.]+\+)?json\b/i.test(contentType)) return undefined;
  try {
    const value: unknown = parseForeignJson(text, jsonLimits.managementAnswer);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
};
