import type { Clock } from "#kit/clock.ts";
import { ConfigError } from "#kit/env.ts";
import type { Log } from "#kit/log.ts";
import type { ExportConfig } from "../config/export-config.ts";
import type { NamedServers } from "../node/database/database-servers.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { Database } from "../store/database/database.ts";
import {
  createExportPosition,
  type ExportLease,
  ExportPositionForeign,
} from "../store/export/positions.ts";
import { readerSetup } from "../store/export/read-envelopes.ts";
import { destroyClient, openCopyClient } from "../store/ingest/copy-transaction.ts";
import { describeDamage } from "../store/ingest/stored-envelope.ts";
import { createPostgresSource } from "./postgres-source.ts";
import type { ClosableSource } from "./source.ts";

/** Where an export reads, by its configuration. */
export interface ExportSources {
  /** Creates the position of the export unless there is one. Throws `ConfigError` when it is one of another sink. */
  prepare(): Promise<void>;
  /** Opens the source behind the lease's position. */
  open(lease: ExportLease): Promise<ClosableSource>;
  close(): Promise<void>;
}

/** One chunk of four in memory, so that lanes have work while the next one is read. */
const chunksInMemory = 8;
const chunkBytesMax = 8 * 1024 * 1024;
/** The system itself gives a connection up after 15 minutes without an acknowledgement. */
const silenceMs = 30_000;

/** Makes the sources that the configuration names. Connects to NATS for its own; the client is loaded only then. */
export const createSources = async (
  config: ExportConfig,
  { db, sessions, clock, log }: { db: Database; sessions: NamedServers; clock: Clock; log: Log },
): Promise<ExportSources> => {
  const { name, start, sink } = config;
  const chunkBytes = Math.min(chunkBytesMax, config.bufferBytesMax / chunksInMemory);
  if (sink.kind === "postgres")
    return {
      prepare: () => ofThisSink(name, createExportPosition(db, name, start)),
      open: async (lease) =>
        createPostgresSource({
          db,
          lease,
          clock,
          chunkBytes,
          silenceMs,
          codec: zstdCodec,
          connect: async () => openCopyClient(await sessions.servers.locate(), readerSetup),
          disconnect: destroyClient,
          onDamaged: (block) =>
            log.error(
              { export: name, damaged: describeDamage(block) },
              "a stored block is damaged; its envelopes are lost",
            ),
        }),
      close: async () => undefined,
    };
  const { connectNats } = await import("../node/ingest/connect-nats.ts");
  const { manageStream, openStreamSource, prepareStreamPosition } = await import(
    "./stream-source.ts"
  );
  const { stream } = sink;
  return connectNats(
    sink,
    { clock, log, name: `svc-server export ${name}` },
    async (connection) => {
      const manager = await manageStream(connection, stream);
      return {
        prepare: () =>
          ofThisSink(name, prepareStreamPosition({ db, manager, stream }, name, start)),
        open: (lease) =>
          openStreamSource({
            db,
            connection,
            manager,
            stream,
            lease,
            clock,
            log,
            chunkBytes,
            codec: zstdCodec,
          }),
        close: () => connection.close(),
      };
    },
  );
};

const ofThisSink = async (name: string, prepared: Promise<void>): Promise<void> => {
  try {
    await prepared;
  } catch (cause) {
    if (!(cause instanceof ExportPositionForeign)) throw cause;
    throw new ConfigError([
      {
        variable: "SVC_INGEST_SINK",
        message: `the export ${name} has a position of another sink: ${cause.message}; set another SVC_EXPORT_NAME`,
      },
    ]);
  }
};
