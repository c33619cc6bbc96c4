import type { PgDatabase } from "drizzle-orm/pg-core";
import type { PostgresJsQueryResultHKT } from "drizzle-orm/postgres-js";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { Assets } from "./assets.ts";
import type { WebConfig } from "./config.ts";

/** Web's database, of which it selects from `authentication_identity` and `person` alone. */
export type Database = Pick<PgDatabase<PostgresJsQueryResultHKT>, "select">;

/** How web calls core and the identity provider; `globalThis.fetch` outside tests. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Every dependency of web. A factory takes the narrowest `Pick` of it. */
export interface Web {
  config: WebConfig;
  db: Database;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  fetch: Fetch;
  /** The built user interface. */
  assets: Assets;
}
