import { jetstream } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { readStreamBlock } from "#functions/export/stream-source.ts";
import { type Committer, createCommitter } from "#functions/ingest/committer.ts";
import { createNatsSink } from "#functions/ingest/nats-sink/create-nats-sink.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { readEnvelopes, readerSetup } from "#functions/store/export/read-envelopes.ts";
import { openCommitClient } from "#functions/store/ingest/commit-frames.ts";
import { openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import type { StoredEnvelope } from "#functions/store/ingest/stored-envelope.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { startNats } from "#scripts/lab/nats-servers.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";

/** Where core stores envelopes, and an export finds them. */
export interface ExportStore {
  committer: Pick<Committer, "commit">;
  /** Its variables for an export. */
  env: Readonly<Record<string, string>>;
  /** The process whose CPU time it takes. */
  pid: number;
  /** Reads everything that is stored, as fast as its client does. */
  readAll(): AsyncIterable<readonly StoredEnvelope[]>;
  close(): Promise<void>;
}

const ignore = () => undefined;

/** Opens the store of a sink; the database also keeps the positions of exports. */
export const openExportStore = (sink: string, database: EmbeddedDatabase): Promise<ExportStore> => {
  if (sink === "nats") return openNatsStore(database);
  if (sink === "postgres") return openPostgresStore(database);
  throw new Error("--sink is postgres or nats");
};

const openPostgresStore = async ({ url, sql, pid }: EmbeddedDatabase): Promise<ExportStore> => {
  const committer = createCommitter({
    connect: () => openCommitClient(url),
    clock: systemClock,
    codec: zstdCodec,
    observe: { batch: ignore },
  });
  return {
    committer,
    env: {},
    pid,
    /** In ranges of 64 transactions. */
    async *readAll() {
      const [row] = await sql<{ first: string; last: string }[]>`
        select min(xid) as first, max(xid) + 1 as last from ingest_block`;
      if (row === undefined) throw new Error("nothing is stored");
      const client = await openCopyClient(url, readerSetup);
      const step = 64n;
      for (let from = BigInt(row.first); from < BigInt(row.last); from += step)
        yield (await readEnvelopes(client, { from, to: from + step, bytesMax: 1 << 30 }, zstdCodec))
          ?.envelopes ?? [];
      await client.end();
    },
    close: () => committer.close(),
  };
};

const readAhead = 2_000;

const openNatsStore = async (database: EmbeddedDatabase): Promise<ExportStore> => {
  const nats = await startNats({ fileStoreBytes: 8 * 2 ** 30 });
  const settings = {
    stream: "SVC_INGEST",
    replicas: 1,
    durability: "replicated" as const,
    maxAgeSeconds: 0,
  };
  const sink = await createNatsSink({
    connection: await connect({ servers: nats.addresses }),
    settings,
    db: database.db,
    connectCommitter: () => openCommitClient(database.url),
    codec: zstdCodec,
    clock: systemClock,
    entropy: systemEntropy,
    log: { warn: ignore },
    observe: {
      batch: ignore,
      gap: ignore,
      implausibleGap: ignore,
      published: ignore,
      publishFailed: ignore,
    },
  });
  return {
    committer: sink,
    env: {
      SVC_INGEST_SINK: "nats",
      SVC_NATS_URLS: nats.addresses.map((address) => `nats://${address}`).join(),
      SVC_NATS_REPLICAS: "1",
      SVC_NATS_DURABILITY: "replicated",
    },
    pid: nats.nodes[0]?.pid() ?? 0,
    async *readAll() {
      const { state } = await nats.manager.streams.info(settings.stream);
      const consumer = await jetstream(nats.connection).consumers.get(settings.stream);
      const messages = await consumer.consume({ max_messages: readAhead });
      let envelopes: StoredEnvelope[] = [];
      for await (const { headers, data, seq } of messages) {
        for (const envelope of readStreamBlock({ headers, data }, zstdCodec) ?? [])
          envelopes.push(envelope);
        if (envelopes.length < readAhead && seq < state.last_seq) continue;
        yield envelopes;
        envelopes = [];
        if (seq >= state.last_seq) break;
      }
      await messages.close();
    },
    async close() {
      await sink.close();
      await nats.stop();
    },
  };
};
