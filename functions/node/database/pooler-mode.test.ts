import { expect, it } from "vitest";
import {
  canStartPgBouncer,
  type PoolMode,
  startPgBouncer,
} from "#tests/support/database/pgbouncer.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { findPoolerMode } from "./prepare-database.ts";

const canStart = await canStartPgBouncer();

const database = await useTestDatabase();

it("D9: finds that PostgreSQL itself keeps sessions", async () => {
  expect(await findPoolerMode(database.url)).toBe("session");
});

const modes: [PoolMode, Record<string, number>][] = [
  ["session", {}],
  ["session", { server_round_robin: 1, min_pool_size: 4 }],
  ["transaction", { default_pool_size: 1 }],
  ["transaction", {}],
  ["transaction", { server_round_robin: 1, min_pool_size: 2, default_pool_size: 2 }],
  ["transaction", { server_round_robin: 1, min_pool_size: 3, default_pool_size: 3 }],
  ["transaction", { server_round_robin: 1, min_pool_size: 4, default_pool_size: 4 }],
  ["statement", {}],
];

it.skipIf(!canStart).for(modes)("D9: finds PgBouncer's %s mode, %o", async ([mode, settings]) => {
  const pooler = await startPgBouncer(database.url, { mode, settings });
  try {
    const url = pooler.url(database.url);
    expect(await findPoolerMode(url)).toBe(mode);
    // Again, with as many connections to the server as the pooler keeps.
    expect(await findPoolerMode(url)).toBe(mode);
  } finally {
    await pooler.stop();
  }
});
