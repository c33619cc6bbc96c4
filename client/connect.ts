import { type Client, createClient, createConfig } from "./gen/client/index.ts";
import { FleetError, problemOf } from "./problem.ts";

/** Where core is, and who calls. */
export interface FleetOptions {
  /** Origin of core or of the edge before it, without `/v1`. */
  baseUrl: string;
  /** A bridge token, a bootstrap token or the ops token; a function is asked before each request, so that tokens may expire. */
  bearer?: string | (() => string | Promise<string>);
  /** In place of the platform's: for other trust, timeouts or retries. */
  fetch?: typeof globalThis.fetch;
  /** Failed calls throw a `FleetError` instead of giving `{ error }`. */
  throwOnError?: boolean;
}

/** What operations call with: `listEnrollmentPolicies({ client })`. Keeps no state beside its options. */
export type FleetClient = Client;

/**
 * Makes a client. Each operation gives `{ data }` or `{ error }`; `error` is always a problem, so its `code` tells what happened.
 * A call whose `signal` aborts rejects with the signal's reason.
 */
export const connectFleet = ({ baseUrl, bearer, fetch, throwOnError = false }: FleetOptions): FleetClient => {
  const client = createClient(
    createConfig({
      baseUrl: baseUrl.replace(/\/+$/, ""),
      throwOnError,
      ...(bearer === undefined ? {} : { auth: typeof bearer === "string" ? bearer : () => bearer() }),
      ...(fetch === undefined ? {} : { fetch }),
    }),
  );
  client.interceptors.error.use((error, response, _, options) => {
    if (options.signal?.aborted) throw options.signal.reason;
    const problem = problemOf(error, response);
    return (options.throwOnError ?? throwOnError) ? new FleetError(problem, { cause: error }) : problem;
  });
  return client;
};
