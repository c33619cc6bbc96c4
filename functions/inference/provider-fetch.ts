import { APICallError } from "ai";
import type { Clock } from "../../kit/clock.ts";
import { errorCode } from "../../kit/describe-error.ts";
import { JsonLimitError, jsonLimits, limitJson } from "../../kit/foreign-json.ts";
import { TimedOut } from "../../kit/with-timeout.ts";

/** A fault of a provider, in words that hold no key, prompt or response body. */
export class ProviderFault extends Error {
  override readonly name = "ProviderFault";
  /** Whether the same request may succeed later: 429 and 5xx. */
  readonly transient: boolean;
  /** What the provider asks for by `Retry-After`; null when it does not. */
  readonly retryAfterSeconds: number | null;

  constructor(
    message: string,
    { status, retryAfter }: { status?: number; retryAfter?: number | null } = {},
  ) {
    super(message);
    this.transient = status === 429 || (status !== undefined && status >= 500);
    this.retryAfterSeconds = retryAfter ?? null;
  }
}

/**
 * Returns the `fetch` of a provider's SDK. Limits the JSON of an answer, follows no redirect, and throws a `ProviderFault` for every status
 * but 2xx without reading the body, which may have no end and quote the key or the prompt.
 */
export const createProviderFetch =
  (clock: Pick<Clock, "now">): typeof fetch =>
  async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    if (response.ok) return limitJson(response, jsonLimits.modelAnswer);
    await response.body?.cancel();
    throw statusFault(response.status, response.headers.get("Retry-After"), clock.now());
  };

/** Returns the fault of the provider for an error of the SDK or of `fetch`. */
export const providerFaultOf = (error: unknown, now: number): ProviderFault => {
  if (error instanceof ProviderFault) return error;
  if (error instanceof TimedOut)
    return new ProviderFault(`the provider was silent: ${error.message}`);
  // A provider that fails after the status 200 reports it in its stream; the SDK turns it into a status.
  if (APICallError.isInstance(error) && error.statusCode !== undefined && error.statusCode !== 200)
    return statusFault(error.statusCode, error.responseHeaders?.["retry-after"] ?? null, now);
  const { cause } = Object(error) as Error;
  if (cause instanceof JsonLimitError) return new ProviderFault(cause.message);
  const code = codeOf(error);
  return code === undefined
    ? new ProviderFault(
        `the stream is not valid (${error instanceof Error ? error.name : typeof error})`,
      )
    : new ProviderFault(`the connection failed (${code})`);
};

const statusFault = (status: number, retryAfter: string | null, now: number): ProviderFault => {
  // In workerd, `redirect: "manual"` returns the redirect; elsewhere a response of type `opaqueredirect` with status 0.
  const redirected = status === 0 || (status >= 300 && status < 400);
  return new ProviderFault(
    redirected ? "the provider redirected" : `the provider answered HTTP ${status}`,
    {
      status,
      retryAfter: secondsOf(retryAfter, now),
    },
  );
};

/** Reads `Retry-After` (RFC 9110, 10.2.3): seconds or a date. */
const secondsOf = (value: string | null, now: number): number | null => {
  if (value === null) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value);
  const date = Date.parse(value);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1_000));
};

const codeOf = (error: unknown, depth = 0): string | undefined =>
  errorCode(error) ??
  (error instanceof Error && depth < 5 ? codeOf(error.cause, depth + 1) : undefined);
