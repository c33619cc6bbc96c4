/** A process that exports, as the product composes it, on the models of the servers and the backend. */
import { type ExportConfig, parseExportConfig } from "#functions/config/export-config.ts";
import { createExportMetrics } from "#functions/export/export-metrics.ts";
import { createPostgresSource } from "#functions/export/open-source.ts";
import { runExport } from "#functions/export/run-export.ts";
import type { ExportSource } from "#functions/export/source.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import {
  createExportPosition,
  type ExportLease,
  noOutcome,
} from "#functions/store/export/positions.ts";
import { destroyClient } from "#functions/store/ingest/copy-transaction.ts";
import { createObjectReader, type ObjectReader } from "#functions/store/ingest/object-data.ts";
import type { DamagedBlock } from "#functions/store/ingest/stored-envelope.ts";
import { type Backend, type BackendFault, createBackendClient } from "./backend.ts";
import type { Bucket } from "./bucket.ts";
import type { SessionNeeds } from "./database-session.ts";
import { connectExportDatabase, connectReader } from "./export-database.ts";
import { endProcess, type Process, type World } from "./world.ts";

/** A running exporter. */
export interface SimulatedExporter {
  readonly name: string;
  process: Process;
  /** The most bytes that it had in memory. */
  bufferedMax(): number;
  /** Ends the process as SIGKILL does. */
  kill(): void;
  /** Ends it as SIGTERM does. */
  stop(): void;
}

/** The dependencies of an exporter. */
export interface ExporterNeeds extends Omit<SessionNeeds, "client"> {
  name: string;
  backend: Backend;
  limits: ExportLimits;
  /** What exporters have found damaged. */
  damaged: DamagedBlock[];
  /** Returns a client of the bucket for a process. */
  openBucket: Bucket["open"];
  fault?: { backend?: BackendFault; source?: SourceFault; reader?: ReaderFault } | undefined;
}

/** Changes how objects are read: a planted fault. */
export type ReaderFault = (reader: ObjectReader) => Pick<ObjectReader, "withData">;

/** How the source differs from a correct one: a planted fault. */
export interface SourceFault {
  /** The position moves when a chunk is read. */
  commitsEarly?: boolean;
  /** What is damaged is reported to nobody. */
  hidesDamage?: boolean;
}

/** The limits of all exporters of a history. */
export type ExportLimits = Pick<
  ExportConfig,
  "bufferBytesMax" | "requestBytesMax" | "concurrency" | "deadLettersMax" | "hostDeadLettersMax"
>;

const exportName = "default";
/** As functions/export/open-source.ts has it. */
const chunksInMemory = 8;
const silenceMs = 30_000;

/** Returns the bytes that a chunk aims at. */
export const chunkBytesOf = ({ bufferBytesMax }: ExportLimits): number =>
  bufferBytesMax / chunksInMemory;

const { config: parsed } = parseExportConfig(
  { SVC_DATABASE_URL: "postgres://simulated/svc", SVC_EXPORT_ENDPOINT: "http://simulated:4318" },
  () => "",
);

/** Starts an exporter. */
export const startExporter = (world: World, needs: ExporterNeeds): SimulatedExporter => {
  const { name, backend, limits, openBucket, fault = {} } = needs;
  const process = world.process(name);
  return world.as(process, () => {
    const clock = world.clockOf(process);
    const db = connectExportDatabase(world, { ...needs, client: process });
    const metrics = createExportMetrics();
    const objects = createObjectReader({
      db,
      codec: zstdCodec,
      open: async () => openBucket(process),
    });
    const stopping = new AbortController();
    const owner = world.entropy.bytes(8).toHex();
    let term = "";
    let terms = 0;
    let bufferedMax = 0;
    const open = (lease: ExportLease) => {
      // A database that goes back gives epochs again.
      term = `${name} ${owner} ${++terms} ${lease.epoch}`;
      world.note(`${name} exports from ${lease.position}, term ${lease.epoch}`);
      const source = createPostgresSource({
        db,
        lease,
        clock,
        codec: zstdCodec,
        chunkBytes: chunkBytesOf(limits),
        objects: fault.reader?.(objects) ?? objects,
        silenceMs,
        connect: () => connectReader(world, { ...needs, client: process }),
        disconnect: destroyClient,
      });
      if (fault.source?.commitsEarly) return committingEarly(source);
      return fault.source?.hidesDamage ? source : notingDamage(source, needs.damaged);
    };
    const observe = {
      ...metrics.observe,
      buffered: (bytes: number) => {
        bufferedMax = Math.max(bufferedMax, bytes);
      },
    };
    const log = {
      info: () => undefined,
      warn: (fields: object, message: string) =>
        world.note(`${name}: ${message} ${describe(fields)}`),
      error: (fields: object, message: string) =>
        world.note(`${name}: ${message} ${describe(fields)}`),
    };
    const run = async (): Promise<void> => {
      // At its start it waits for the database.
      for (let isReady = false; !isReady; ) {
        isReady = await createExportPosition(db, exportName, "oldest").then(
          () => true,
          () => false,
        );
        if (!isReady) await clock.sleep(1_000);
      }
      await runExport({
        db,
        owner,
        clock,
        open,
        entropy: world.entropy,
        log,
        config: { ...parsed, ...limits, name: exportName },
        client: createBackendClient(world, {
          backend,
          client: process,
          term: () => term,
          fault: fault.backend,
        }),
        stopping: stopping.signal,
        metrics: { ...metrics, observe },
      });
      world.note(`${name} has stopped`);
      process.isAlive = false;
    };
    run().catch((cause: unknown) => world.note(`BROKEN ${name} ended: ${String(cause)}`));
    return {
      name,
      process,
      bufferedMax: () => bufferedMax,
      kill: () => endProcess(process),
      stop: () => stopping.abort(),
    };
  });
};

/** Moves the position before a chunk is delivered. */
const committingEarly = (source: ExportSource): ExportSource => ({
  ...source,
  async read() {
    const chunk = await source.read();
    if (chunk === null) return null;
    await chunk.commit({ ...noOutcome, exported: chunk.envelopes });
    return { ...chunk, commit: async () => undefined };
  },
});

/** Notes the damage of a chunk, which the exporter has named, even if it never learns that its commit succeeded. */
const notingDamage = (source: ExportSource, damaged: DamagedBlock[]): ExportSource => ({
  ...source,
  async read() {
    const chunk = await source.read();
    if (chunk === null) return null;
    const commit: typeof chunk.commit = (outcome) => {
      damaged.push(...outcome.damaged);
      return chunk.commit(outcome);
    };
    return { ...chunk, commit };
  },
});

const describe = ({ err, ...fields }: { err?: unknown }): string =>
  [
    JSON.stringify(fields),
    ...(err instanceof Error ? [err.message, String(err.cause ?? "")] : []),
  ].join(" ");
