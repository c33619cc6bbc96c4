import type { Client } from "pg";
import { highest, lowest } from "#kit/bigint.ts";
import type { Clock } from "#kit/clock.ts";
import { variableFault } from "#kit/env.ts";
import type { ExportConfig } from "../config/export-config.ts";
import type { NamedServers } from "../node/database/database-servers.ts";
import { createNodeObjectReader } from "../node/ingest/read-objects.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { Database } from "../store/database/database.ts";
import { serverCheck } from "../store/database/identity.ts";
import { alignStoredCount } from "../store/export/lag.ts";
import {
  createExportPosition,
  type ExportLease,
  ExportLeaseLost,
  moveExportPosition,
  PositionInStream,
  readHorizon,
} from "../store/export/positions.ts";
import {
  type PackedBlock,
  packBlocks,
  readBlocks,
  readerSetup,
} from "../store/export/read-envelopes.ts";
import { destroyClient, limitSilence, openCopyClient } from "../store/ingest/copy-transaction.ts";
import type { ObjectReader } from "../store/ingest/object-data.ts";
import type { BlockCodec } from "../store/ingest/stored-envelope.ts";
import { summarizeRows } from "../store/rows/read-rows.ts";
import { type ExportChunk, type ExportSource, groupQueues } from "./source.ts";

/** Where an export reads, by its configuration. */
interface NamedSource {
  /** Creates the position of the export unless there is one. Throws `ConfigError` when it is one of a stream. */
  prepare(): Promise<void>;
  /** Opens the source behind the lease's position. */
  open(lease: ExportLease): ExportSource;
}

/** The number of chunks that fit in memory, so that lanes have work while the next one is read. */
const chunksInMemory = 8;
const chunkBytesMax = 8 * 1024 * 1024;
/** The operating system itself closes a connection only after 15 minutes without an acknowledgement. */
const silenceMs = 30_000;

/** The dependencies of the source. */
interface PostgresSourceOptions {
  db: Database;
  /** Opens a connection that reads; the source replaces one that fails. */
  connect(): Promise<Client>;
  disconnect(client: Client): void;
  lease: ExportLease;
  clock: Pick<Clock, "monotonic">;
  /** The size of a chunk that the source aims at. */
  chunkBytes: number;
  codec: Pick<BlockCodec, "decompress">;
  objects: Pick<ObjectReader, "withData">;
  /** A server that sends nothing for so long while it is read is unreachable. */
  silenceMs: number;
}

/** Few enough that the first chunk of a backlog is hardly ever too large. */
const firstWidth = 16n;
const widthMax = 1n << 40n;
/** A chunk that exceeds its target size by this factor is read again in smaller ranges. */
const overshoot = 4;
/** How often the position of an idle export moves, and the index gets new rows: until then each read scans them. */
const idleCommitMs = 5_000;
const summarizeMs = 2_000;

/**
 * Reads `ingest_block` in the order of its commits: in ranges of transaction ids, whose width aims at chunks of `chunkBytes`. Reads a single
 * transaction whole, because the committer limits its size.
 */
export const createPostgresSource = (options: PostgresSourceOptions): ExportSource => {
  const { db, lease, clock, chunkBytes } = options;
  let from = lease.position;
  let horizon = from;
  let width = firstWidth;
  let client: Client | undefined;
  let movedAt = clock.monotonic();
  let summarizedAt = clock.monotonic();

  const disconnect = () => {
    if (client) options.disconnect(client);
    client = undefined;
  };

  const readTo = async (to: bigint): Promise<PackedBlock[] | null> => {
    client ??= await connectOn(lease, options);
    try {
      const bytesMax = to === from + 1n ? Number.POSITIVE_INFINITY : chunkBytes * overshoot;
      const read = await limitSilence(
        client,
        options.silenceMs,
        readBlocks(client, { from, to, bytesMax }),
      );
      if (read !== null) return await packBlocks(read, options);
      disconnect();
      return null;
    } catch (cause) {
      disconnect();
      throw cause;
    }
  };

  const summarize = async () => {
    if (clock.monotonic() - summarizedAt < summarizeMs) return;
    await summarizeRows(db).catch(() => undefined);
    summarizedAt = clock.monotonic();
  };

  const toChunk = (blocks: readonly PackedBlock[], to: bigint): ExportChunk => {
    const envelopes = blocks.reduce((sum, block) => sum + block.envelopes, 0);
    return {
      queues: groupQueues(blocks),
      envelopes,
      bytes: bytesOf(blocks),
      async commit(outcome) {
        await moveExportPosition(db, lease, { ...outcome, passed: envelopes, position: to });
        if (envelopes === 0) await alignStoredCount(db, lease.name);
      },
    };
  };

  return {
    async read() {
      for (;;) {
        if (from >= horizon) horizon = await readHorizon(db, lease);
        if (from >= horizon) return null;
        const to = lowest(from + width, horizon);
        const blocks = await readTo(to);
        if (blocks === null) {
          width = highest(1n, (to - from) / 4n);
          continue;
        }
        width = nextWidth(width, { ids: to - from, bytes: bytesOf(blocks), chunkBytes });
        if (blocks.length > 0) await summarize();
        from = to;
        if (blocks.length === 0 && clock.monotonic() - movedAt < idleCommitMs) continue;
        movedAt = clock.monotonic();
        return toChunk(blocks, to);
      }
    },
    close: disconnect,
  };
};

/**
 * Connects to the server to which the position belongs: the former primary of a failover may still accept readers, and a restarted server may
 * have been restored.
 */
const connectOn = async (
  { identity }: ExportLease,
  { connect, disconnect, silenceMs }: PostgresSourceOptions,
): Promise<Client> => {
  const client = await connect();
  if (identity === null) return client;
  const { query, isSame } = serverCheck(identity);
  const checked = client.query<{ timeline: number | null; started: string }>(query);
  const { rows } = await limitSilence(client, silenceMs, checked);
  if (isSame(rows[0])) return client;
  disconnect(client);
  throw new ExportLeaseLost("the reader's server is on another timeline, or was started anew");
};

const bytesOf = (blocks: readonly PackedBlock[]) =>
  blocks.reduce((sum, { bytes }) => sum + bytes, 0);

/** Returns a width that makes a chunk of the aimed size, at most four times the last one. */
const nextWidth = (width: bigint, read: { ids: bigint; bytes: number; chunkBytes: number }) => {
  const factor = Math.min(4, read.chunkBytes / Math.max(1, read.bytes));
  // A range that ended at the horizon says nothing about a wider one.
  if (read.ids < width && factor > 1) return width;
  const next = BigInt(Math.max(1, Math.floor(Number(read.ids) * factor)));
  return lowest(next, widthMax);
};

/** Creates the source that the configuration names. */
export const createSource = (
  { name, start, bufferBytesMax, storeKeys }: ExportConfig,
  { db, sessions, clock }: { db: Database; sessions: NamedServers; clock: Clock },
): NamedSource => ({
  prepare: async () => {
    try {
      await createExportPosition(db, name, start);
    } catch (cause) {
      if (!(cause instanceof PositionInStream)) throw cause;
      throw variableFault(
        "SVC_EXPORT_NAME",
        `${name} has a position in JetStream, from which core no longer exports: choose another name`,
      );
    }
  },
  open: (lease) =>
    createPostgresSource({
      db,
      lease,
      clock,
      chunkBytes: Math.min(chunkBytesMax, bufferBytesMax / chunksInMemory),
      silenceMs,
      codec: zstdCodec,
      objects: createNodeObjectReader(db, storeKeys),
      connect: async () => openCopyClient(await sessions.servers.locate(), readerSetup),
      disconnect: destroyClient,
    }),
});
