import type { JetStreamManager } from "@nats-io/jetstream";
import type { Database } from "#functions/store/database/database.ts";
import {
  findStreamExports,
  noteStreamLag,
  type StreamExport,
} from "#functions/store/export/lag.ts";
import type { Clock } from "#kit/clock.ts";

const intervalMs = 2_000;

/**
 * Notes in PostgreSQL how far the exports of a stream are behind it, every two seconds until the signal aborts, whether a process exports or
 * not. A failure is left to the next round: the sink reports a stream, and readiness a database, that is unavailable.
 */
export const watchExportLags = async (
  {
    manager,
    db,
    clock,
    stream,
  }: { manager: JetStreamManager; db: Database; clock: Clock; stream: string },
  signal: AbortSignal,
): Promise<void> => {
  while (!signal.aborted) {
    await clock.sleep(intervalMs, signal).catch(() => undefined);
    if (!signal.aborted) await noteExportLags({ manager, db, stream }).catch(() => undefined);
  }
};

/** Which messages a stream has. */
export interface StreamState {
  /** The name and the time of creation: a stream that was deleted and created again numbers its messages anew. */
  identity: string;
  /** The sequence of the oldest message; one above the last where there is none. */
  firstSequence: bigint;
  lastSequence: bigint;
  /** When the oldest message was stored, in milliseconds; null without one. */
  firstAt: number | null;
}

/** Reads the state of a stream. */
export const streamStateOf = async (
  { streams }: Pick<JetStreamManager, "streams">,
  name: string,
): Promise<StreamState> => {
  const { created, state } = await streams.info(name);
  const lastSequence = BigInt(state.last_seq);
  const isEmpty = state.messages === 0;
  return {
    identity: `${name} ${created}`,
    firstSequence: isEmpty ? lastSequence + 1n : BigInt(state.first_seq),
    lastSequence,
    firstAt: isEmpty ? null : Date.parse(state.first_ts),
  };
};

/** Notes how far each export of a stream is behind it. */
export const noteExportLags = async ({
  manager,
  db,
  stream,
}: {
  manager: Pick<JetStreamManager, "streams">;
  db: Database;
  stream: string;
}): Promise<void> => {
  const { identity, firstSequence, lastSequence, firstAt } = await streamStateOf(manager, stream);
  for (const { name, position, storedBy } of await findStreamExports(db, identity)) {
    // The position keeps what shows that the stream has gone back, until its export has found it.
    if (position < lastSequence && (await isReplaced({ manager, stream }, { position, storedBy })))
      continue;
    const next = position + 1n < firstSequence ? firstSequence : position + 1n;
    const pending = next > lastSequence ? 0 : Number(lastSequence - next + 1n);
    const oldestAt =
      pending === 0
        ? null
        : next === firstSequence
          ? firstAt
          : await storedAt(manager, stream, next);
    await noteStreamLag(db, { name, stream: identity, position, pending, oldestAt });
  }
};

/**
 * Reports whether the message at an export's position is a newer one than the export passed: the stream was restored to before the position, and has
 * grown beyond it since.
 */
export const isReplaced = async (
  { manager, stream }: { manager: Pick<JetStreamManager, "streams">; stream: string },
  { position, storedBy }: Pick<StreamExport, "position" | "storedBy">,
): Promise<boolean> =>
  Number.isFinite(storedBy) && ((await storedAt(manager, stream, position)) ?? 0) > storedBy;

/** Returns when the message at a sequence was stored, in milliseconds; null when it has been deleted. */
const storedAt = async (
  { streams }: Pick<JetStreamManager, "streams">,
  stream: string,
  sequence: bigint,
): Promise<number | null> =>
  (await streams.getMessage(stream, { seq: Number(sequence) }))?.time.getTime() ?? null;
