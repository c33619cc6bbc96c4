import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { sql } from "drizzle-orm";
import type { Client } from "pg";
import { expect } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { oldestXid, readScalar } from "#functions/store/database/statements.ts";
import {
  commitBatch,
  type ObjectWriter,
  openCommitClient,
} from "#functions/store/ingest/commit-batch.ts";
import type { FrameToCommit } from "#functions/store/ingest/decide-batch.ts";
import { type EnvelopeRun, emptyRun, runOf } from "#functions/store/ingest/envelope-run.ts";
import type { ObjectReader } from "#functions/store/ingest/object-data.ts";
import {
  BlockCorrupt,
  readStoredBlock,
  type StoredBlock,
  type StoredEnvelope,
} from "#functions/store/ingest/stored-envelope.ts";
import { EnvelopeSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type { TestDatabase } from "./database.ts";

/** An envelope, or a part of one. */
export type EnvelopeInit = MessageInitShape<typeof EnvelopeSchema>;

/** Encodes envelopes as ingest does. */
export const testRun = (envelopes: readonly EnvelopeInit[]): EnvelopeRun =>
  runOf(envelopes.map((envelope) => create(EnvelopeSchema, envelope)));

/** Returns a run as its sender compresses it. */
export const compressRun = ({ bytes, ...run }: EnvelopeRun): EnvelopeRun => ({
  ...run,
  bytes: emptyRun().bytes,
  rawBytes: bytes.length,
  compressed: [zstdCodec.compress(bytes)],
});

/** An envelope that is stored: with its queue in hex, its payload as text, and the transaction that stored it. */
export interface FoundEnvelope extends StoredEnvelope {
  queue: string;
  text: string;
  xid: bigint;
}

const rowsOnly: Pick<ObjectReader, "withData"> = { withData: async (blocks) => [...blocks] };

/** Reads what is stored in blocks, by host, queue and sequence. */
export const findStored = async (
  sql: Pick<SqlClient, "unsafe">,
  objects = rowsOnly,
): Promise<FoundEnvelope[]> => {
  const rows = await sql.unsafe<StoredRow[]>(
    `select host_id as "hostId", queue_id as "queueId", (extract(epoch from received_at) * 1e6)::bigint::text as received,
       xid::text, raw_bytes as "rawBytes", encoding, data, digest
     from ingest_block order by host_id collate "C", queue_id, first_sequence, xid`,
  );
  return (await objects.withData(rows)).flatMap((row) => {
    if (row instanceof BlockCorrupt) throw row;
    const { received, xid, ...block } = row;
    return readStoredBlock({ ...block, receivedAt: BigInt(received) }, zstdCodec).map(
      (envelope) => ({
        ...envelope,
        queue: Buffer.from(envelope.queueId).toString("hex"),
        text: Buffer.from(envelope.payload).toString(),
        xid: BigInt(xid),
      }),
    );
  });
};

type StoredRow = Omit<StoredBlock, "receivedAt"> &
  Record<"received" | "xid", string> & { digest: Uint8Array };

/** Stores envelopes as core does. */
export interface EnvelopeStore {
  /** Stores lines of a host in one transaction, numbered behind those before. */
  lines(hostId: string, texts: readonly string[]): Promise<void>;
  /** Stores envelopes of a host, numbered behind those before. */
  envelopes(hostId: string, rows: readonly EnvelopeInit[]): Promise<void>;
  close(): Promise<void>;
}

/** The queue of every host. */
export const storedQueue = new Uint8Array(16).fill(7);

/** Opens a connection that stores envelopes in PostgreSQL, or in objects with rows that name them. */
export const openEnvelopeStore = async (
  { url }: Pick<TestDatabase, "url">,
  now = Date.now,
  objects?: ObjectWriter,
): Promise<EnvelopeStore & { client: Client }> => {
  const client = await openCommitClient(url);
  const needs = { codec: zstdCodec, now, objects };
  const store = storeWith((frame) => commitBatch(client, [frame], needs), now);
  return { ...store, client, close: () => client.end() };
};

/** Resolves once all that is stored is the past of a stream that opens: transactions of others on the server may be older. */
export const untilPast = (db: Executor) =>
  expect
    .poll(() => readScalar(db, Boolean, sql`select ${oldestXid} > max(xid) from ingest_block`))
    .toBe(true);

/** Numbers and encodes envelopes as ingest does, and commits them. */
const storeWith = (
  commit: (frame: FrameToCommit) => Promise<unknown>,
  now: () => number,
): Omit<EnvelopeStore, "close"> => {
  const cursors = new Map<string, bigint>();
  const envelopes: EnvelopeStore["envelopes"] = async (hostId, some) => {
    const previousSequence = cursors.get(hostId) ?? 0n;
    const rows = some.map((row, index) =>
      create(EnvelopeSchema, {
        kind: "log_line",
        source: "files",
        attributes: { "file.path": "/var/log/app.log" },
        observedAt: { seconds: 1_795_000_000n, nanos: 5_000 },
        ...row,
        sequence: previousSequence + BigInt(index) + 1n,
      } as EnvelopeInit),
    );
    const lastSequence = previousSequence + BigInt(rows.length);
    const frame: FrameToCommit = {
      hostId,
      queueId: storedQueue,
      previousSequence,
      lastSequence,
      receivedAt: now(),
      run: runOf(rows),
    };
    await commit(frame);
    cursors.set(hostId, lastSequence);
  };
  return {
    envelopes,
    lines: (hostId, texts) =>
      envelopes(
        hostId,
        texts.map((text) => ({ payload: new TextEncoder().encode(text) })),
      ),
  };
};
