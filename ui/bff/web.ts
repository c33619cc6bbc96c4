import type { PgDatabase } from "drizzle-orm/pg-core";
import type { PostgresJsQueryResultHKT } from "drizzle-orm/postgres-js";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import type { WebConfig } from "./config.ts";

/** Web's database, of which it selects only `authentication_identity` and `person`. */
export type WebDatabase = Pick<PgDatabase<PostgresJsQueryResultHKT>, "select">;

/** How web calls core and the identity provider; `globalThis.fetch` outside tests. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** The operator UI that Vite built. */
export interface WebUi {
  /** An absolute path; each file may have a `.br` and a `.gz` form beside it. */
  folder: string;
  /** Vite's manifest: the built file of a source file, by its path in `ui/app`, and the sources of the files that it imports. */
  manifest: Readonly<
    Record<
      string,
      {
        readonly file: string;
        readonly imports?: readonly string[];
        readonly css?: readonly string[];
      }
    >
  >;
}

/** Every dependency of web. A factory takes the narrowest `Pick` of it. */
export interface Web {
  config: WebConfig;
  db: WebDatabase;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  fetch: Fetch;
  tracer: Tracer;
  /** Undefined when the UI is not built. */
  ui: WebUi | undefined;
}
