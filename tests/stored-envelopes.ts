import type { Client } from "pg";
import { commitFrames, type FrameToCommit, openCommitClient } from "../functions/store/commit-frames.ts";
import { type EnvelopeRow, encodeRows } from "../functions/store/envelope-rows.ts";
import type { TestDatabase } from "./database.ts";

/** Stores envelopes as core does. */
export interface EnvelopeStore {
  client: Client;
  /** Stores lines of a host in one transaction, numbered behind those before. */
  lines(hostId: string, texts: readonly string[]): Promise<void>;
  /** Stores envelopes of a host, numbered behind those before. */
  envelopes(hostId: string, rows: readonly Partial<EnvelopeRow>[]): Promise<void>;
  close(): Promise<void>;
}

/** The queue of every host. */
export const storedQueue = new Uint8Array(16).fill(7);

/** Opens a connection that stores envelopes. */
export const openEnvelopeStore = async ({ url }: Pick<TestDatabase, "url">, now = Date.now): Promise<EnvelopeStore> => {
  const client = await openCommitClient(url);
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
    await commitFrames(client, [frame], now);
    cursors.set(hostId, lastSequence);
  };
  return {
    client,
    envelopes,
    lines: (hostId, texts) =>
      envelopes(
        hostId,
        texts.map((text) => ({ payload: new TextEncoder().encode(text) })),
      ),
    close: () => client.end(),
  };
};
