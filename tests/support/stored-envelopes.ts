import type { Client } from "pg";
import type { NatsSink } from "../../functions/ingest/nats-sink/create-nats-sink.ts";
import type { StreamSettings } from "../../functions/ingest/nats-sink/prepare-streams.ts";
import { commitFrames, type FrameToCommit, openCommitClient } from "../../functions/store/ingest/commit-frames.ts";
import { type EnvelopeRow, encodeRows } from "../../functions/store/ingest/envelope-rows.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import type { RunningNats } from "../../scripts/lab/nats-servers.ts";
import { createTestLog } from "../fakes/log.ts";
import type { TestDatabase } from "./database.ts";
import { natsSinkOn } from "./nats-sink.ts";

/** Stores envelopes as core does. */
export interface EnvelopeStore {
  /** Stores lines of a host in one transaction, numbered behind those before. */
  lines(hostId: string, texts: readonly string[]): Promise<void>;
  /** Stores envelopes of a host, numbered behind those before. */
  envelopes(hostId: string, rows: readonly Partial<EnvelopeRow>[]): Promise<void>;
  close(): Promise<void>;
}

/** The queue of every host. */
export const storedQueue = new Uint8Array(16).fill(7);

/** Opens a connection that stores envelopes in PostgreSQL. */
export const openEnvelopeStore = async (
  { url }: Pick<TestDatabase, "url">,
  now = Date.now,
): Promise<EnvelopeStore & { client: Client }> => {
  const client = await openCommitClient(url);
  const store = storeWith((frame) => commitFrames(client, [frame], now), now);
  return { ...store, client, close: () => client.end() };
};

/** Opens a sink that stores envelopes in JetStream. */
export const openStreamStore = async (
  nats: RunningNats,
  database: TestDatabase,
  settings: Partial<StreamSettings> = {},
): Promise<EnvelopeStore & { sink: NatsSink }> => {
  const sink = await natsSinkOn(
    nats,
    settings,
  )({
    db: database.connect().db,
    databaseUrl: async () => database.url,
    clock: systemClock,
    entropy: systemEntropy,
    log: createTestLog(),
    observe: { batch: () => undefined, gap: () => undefined, implausibleGap: () => undefined },
  });
  return { ...storeWith((frame) => sink.commit(frame, 0), Date.now), sink, close: () => sink.close() };
};

/** Numbers and encodes envelopes as ingest does, and commits them. */
const storeWith = (
  commit: (frame: FrameToCommit) => Promise<unknown>,
  now: () => number,
): Omit<EnvelopeStore, "close"> => {
  const cursors = new Map<string, bigint>();
  const envelopes: EnvelopeStore["envelopes"] = async (hostId, some) => {
    const previousSequence = cursors.get(hostId) ?? 0n;
    const rows = some.map((row, index) => ({
      kind: "log_line",
      source: "files",
      attributes: { "file.path": "/var/log/app.log" },
      observedAt: { seconds: 1_795_000_000n, nanos: 5_000 },
      payload: new Uint8Array(),
      ...row,
      sequence: previousSequence + BigInt(index) + 1n,
    }));
    const lastSequence = previousSequence + BigInt(rows.length);
    const frame: FrameToCommit = {
      hostId,
      queueId: storedQueue,
      previousSequence,
      lastSequence,
      rows: encodeRows({ hostId, queueId: storedQueue, receivedAt: now(), rows }),
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
