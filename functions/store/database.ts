import type { PgDatabase } from "drizzle-orm/pg-core";
import { drizzle, type PostgresJsDatabase, type PostgresJsQueryResultHKT } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import * as schema from "../../drizzle/schema/index.ts";

/** Core's database: a pool on Node, one client per request in workerd. */
export type Database = PostgresJsDatabase<typeof schema>;

/** What a store function runs on: the database itself or a transaction of it. */
export type Executor = PgDatabase<PostgresJsQueryResultHKT, typeof schema>;

/** Drizzle over a postgres.js client. The caller owns the client and ends it. */
export const openDatabase = (client: Sql): Database => drizzle(client, { schema });
