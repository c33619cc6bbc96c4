import type { JetStreamManager } from "@nats-io/jetstream";

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
