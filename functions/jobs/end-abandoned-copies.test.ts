import type { Connection } from "pg";
import { expect, it } from "vitest";
import { useTestDatabase } from "#tests/support/database.ts";
import { openEnvelopeStore } from "#tests/support/stored-envelopes.ts";
import { destroyClient, openCopyClient } from "../store/ingest/copy-transaction.ts";
import { createCopyCleanup } from "./end-abandoned-copies.ts";

const database = await useTestDatabase();

it("D8: ends the COPY of a core that disappeared in its middle, and no other", async () => {
  const { db, sql } = database.connect();
  const store = await openEnvelopeStore(database);
  const abandoned = await openCopyClient(database.url);
  const waiting = () => sql<{ pid: number; xid: string }[]>`
    select pid, backend_xid::text as xid from pg_stat_activity
    where datname = current_database() and state = 'active' and wait_event = 'ClientRead'`;
  const ignore = () => undefined;
  abandoned.query({
    submit: (connection: Connection) =>
      connection.query("begin; select pg_current_xact_id(); copy ingest_block from stdin"),
    handleRowDescription: ignore,
    handleDataRow: ignore,
    handleCommandComplete: ignore,
    handleError: ignore,
    // No rows follow.
    handleCopyInResponse: ignore,
  });
  await expect.poll(waiting).toHaveLength(1);
  const tick = createCopyCleanup({ db });
  expect(await tick()).toBeUndefined();
  await store.lines("a", ["1"]);
  expect(await tick()).toEqual({ ended: 1 });
  await expect.poll(waiting).toHaveLength(0);
  expect(await tick()).toBeUndefined();
  await store.lines("a", ["2"]);
  destroyClient(abandoned);
  await store.close();
});
