import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { restoreBaseBackup, takeBaseBackup } from "#tests/support/database/base-backup.ts";
import { envelopesIn } from "#tests/support/deliver-chunks.ts";
import { openEnvelopeStore } from "#tests/support/stored-envelopes.ts";
import { openDatabaseSocket } from "../node/database/database-servers.ts";
import { createNodeObjectReader } from "../node/ingest/read-objects.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import { readMigrations } from "../node/read-migrations.ts";
import { connectDatabase } from "../store/database/database.ts";
import { migrate } from "../store/database/migrate.ts";
import { findExportLags } from "../store/export/lag.ts";
import {
  acquireExportLease,
  createExportPosition,
  ExportLeaseLost,
  noOutcome,
} from "../store/export/positions.ts";
import { readerSetup } from "../store/export/read-envelopes.ts";
import { destroyClient, openCopyClient } from "../store/ingest/copy-transaction.ts";
import { createPostgresSource } from "./open-source.ts";

/* A server that goes on without its last commits: a standby that was promoted while it lagged, or a server that was restored. */

const texts = (name: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${name} ${index}`);

it.each([
  {
    server: "a promoted standby",
    timeline: 2,
    files: { "recovery.signal": "", "postgresql.auto.conf": "restore_command = 'false'\n" },
  },
  { server: "a restored backup on the same timeline", timeline: 1, files: {} },
])(
  "K4: an export that was ahead of $server skips none of what is stored on it under the same ids",
  async (context) => {
    const postgres = await startEmbeddedPostgres({ durable: false });
    onTestFinished(() => postgres.stop("immediate"));
    const { db, sql, close } = connectDatabase({
      url: postgres.url(),
      connectionsMax: 2,
      openSocket: openDatabaseSocket,
    });
    onTestFinished(() => close(1));
    await migrate(sql, await readMigrations());
    await createExportPosition(db, "default", "oldest");
    const open = async (owner: string) => {
      const acquired = await acquireExportLease(db, "default", { owner });
      if (acquired.lease === null) throw new Error("another process has the lease");
      const source = createPostgresSource({
        codec: zstdCodec,
        objects: createNodeObjectReader(db),
        db,
        lease: acquired.lease,
        clock: clock,
        chunkBytes: 1 << 20,
        silenceMs: 30_000,
        disconnect: destroyClient,
        connect: () => openCopyClient(postgres.url(), readerSetup),
      });
      return { ...acquired, source };
    };
    const clock = { monotonic: () => performance.now() };
    const read = async (source: ReturnType<typeof createPostgresSource>) => {
      const lines: string[] = [];
      for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
        for (const { payload } of envelopesIn(chunk).flat())
          lines.push(new TextDecoder().decode(payload));
        await chunk.commit(noOutcome);
      }
      return lines;
    };

    const primary = await openEnvelopeStore({ url: postgres.url() });
    await primary.lines("a", texts("before", 3));
    const first = await open("one");
    expect(await read(first.source)).toEqual(texts("before", 3));
    const backup = join(tmpdir(), `promoted-${crypto.randomUUID()}`);
    await takeBaseBackup(postgres, backup, context.files);
    for (const text of texts("gone", 40)) await primary.lines("a", [text]);
    const underWay = await first.source.read();
    expect(underWay?.envelopes).toBe(40);
    await primary.close().catch(() => undefined);
    await postgres.restart({
      mode: "immediate",
      whileStopped: (dataDir) => restoreBaseBackup(backup, dataDir),
    });
    await expect.poll(() => sql`select 1`.then(() => "up", String)).toBe("up");
    const promoted = await openEnvelopeStore({ url: postgres.url() });
    for (const text of texts("after", 60)) await promoted.lines("b", [text]);
    await promoted.close();

    // The position that it would store is one of ids which mean something else now.
    if (underWay) await expect(underWay.commit(noOutcome)).rejects.toThrow(ExportLeaseLost);
    first.source.close();
    await sql`update export_position set owner = null`;
    const second = await open("two");
    const leftTimeline = context.timeline === 1 ? null : 1;
    expect(second).toMatchObject({
      leftTimeline,
      lease: { identity: { timeline: context.timeline } },
    });
    expect(await findExportLags(db)).toMatchObject([{ envelopes: 60 }]);
    expect(await read(second.source)).toEqual(texts("after", 60));
    expect(await findExportLags(db)).toMatchObject([{ envelopes: 0, unaccounted: 0 }]);
    second.source.close();
  },
);
