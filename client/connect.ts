import { type Client, createClient, createConfig } from "./gen/client/index.ts";
import { FleetError, problemOf } from "./problem.ts";

/** Where core is, and as whom to call it. */
export interface FleetOptions {
  /** Origin of core or of the edge in front of it, without `/v1`. */
  baseUrl: string;
  /** A bridge token, a bootstrap token or the ops token; a function is called before each request, as tokens expire. */
  bearer?: string | (() => string | Promise<string>);
  /** Replaces the platform's `fetch`, for other CAs, timeouts or retries. */
  fetch?: typeof globalThis.fetch;
  /** Failed calls throw a `FleetError` instead of returning `{ error }`. */
  throwOnError?: boolean;
}

/** The client that operations take: `listEnrollmentPolicies({ client })`. Has no state beside its options. */
export type FleetClient = Client;

/**
 * Creates a client. Each operation returns `{ data }` or `{ error }`; `error` is always a problem with a stable `code`. A call whose
 * `signal` aborts rejects with the signal's reason.
 */
export const connectFleet = ({
  baseUrl,
  bearer,
  fetch,
  throwOnError = false,
}: FleetOptions): FleetClient => {
  const client = createClient(
    createConfig({
      baseUrl: baseUrl.replace(/\/+$/, ""),
      throwOnError,
      ...withoutRetries,
      ...(bearer === undefined
        ? {}
        : { auth: typeof bearer === "string" ? bearer : () => bearer() }),
      ...(fetch === undefined ? {} : { fetch }),
    }),
  );
  client.interceptors.error.use((error, response, _, options) => {
    if (options.signal?.aborted) throw options.signal.reason;
    const problem = problemOf(error, response);
    return (options.throwOnError ?? throwOnError)
      ? new FleetError(problem, { cause: error })
      : problem;
  });
  return client;
};

/** The generated reader of events repeats a failed request, and a question must not be asked twice. Its type lacks this option. */
const withoutRetries: object = {
  onSseError: (error: unknown) => {
    throw error;
  },
};
