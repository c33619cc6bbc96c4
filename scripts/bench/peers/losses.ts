import { setTimeout as sleep } from "node:timers/promises";
import type { BenchSink } from "../collector/collector-run.ts";
import type { PeerLosses } from "./pair.ts";

/** A running agent. */
export interface KilledAgent {
  stop(signal?: NodeJS.Signals): Promise<void>;
}

const sendMs = 300;
/** How long a sender may wait for an agent that blocks because its queue is full. */
const blockedMs = 2_000;
/** No more arrives when nothing has for this long. */
const quietMs = 5_000;

/**
 * Measures what a kill -9 loses while the far end is down: sends to an agent whose sink closes every connection, kills it, lets the sink
 * accept, and starts the agent again on the same files. Nothing can arrive twice, so that what arrives is what was kept.
 */
export const measureLosses = async <Agent extends KilledAgent>(options: {
  start: () => Promise<Agent>;
  /** Sends until the signal aborts; returns how many units were acknowledged. */
  send: (agent: Agent, signal: AbortSignal) => Promise<number>;
  sink: Pick<BenchSink, "received" | "setRefusing">;
  /** Units for each that the sink counts. */
  unitsPerCounted: number;
  sleepMs?: (ms: number) => Promise<unknown>;
}): Promise<PeerLosses> => {
  const { start, send, sink, unitsPerCounted, sleepMs = sleep } = options;
  await sink.setRefusing(true);
  const before = await sink.received();
  const killed = await start();
  const sending = send(killed, AbortSignal.timeout(sendMs));
  await Promise.race([sending, sleepMs(sendMs + blockedMs)]);
  await killed.stop("SIGKILL");
  const acknowledged = await sending;
  await sink.setRefusing(false);
  const restarted = await start();
  let received = before;
  let last: number;
  do {
    last = received;
    await sleepMs(quietMs);
    received = await sink.received();
  } while (received !== last);
  await restarted.stop("SIGKILL");
  return { acknowledged, lost: Math.max(0, acknowledged - (received - before) * unitsPerCounted) };
};
