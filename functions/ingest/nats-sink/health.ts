import type { JetStreamManager } from "@nats-io/jetstream";
import type { Clock } from "../../../kit/clock.ts";
import { Problem } from "../../problems.ts";
import type { Committer } from "../committer.ts";
import type { StreamNames } from "./prepare-streams.ts";
import type { Publisher } from "./publisher.ts";

/** Whether the streams store what they receive. */
export interface StreamHealth {
  /** Watches the outcome of work on the streams, and returns it. */
  observe<Result>(work: Promise<Result>): Promise<Result>;
  status: Committer["health"];
  close(): void;
}

const probeMs = 500;
const stalledSeconds = 10;

/**
 * Makes the health. After a failure it queries the streams until they answer and are below their limits: a core that receives no frames,
 * because it is not ready, would stay so.
 */
export const createHealth = ({
  manager,
  streams,
  clock,
  log,
  waiting,
}: {
  manager: Pick<JetStreamManager, "streams">;
  streams: StreamNames;
  clock: Clock;
  log: { warn(fields: object, message: string): void };
  waiting: Publisher["waiting"];
}): StreamHealth => {
  const closed = new AbortController();
  let failure: string | undefined;

  const isAccepting = async (): Promise<boolean> => {
    for (const name of [streams.envelopes, streams.queues]) {
      const { state, config } = await manager.streams.info(name);
      if (config.max_bytes > 0 && state.bytes >= config.max_bytes) return false;
      if (config.max_msgs > 0 && state.messages >= config.max_msgs) return false;
    }
    return true;
  };
  const probe = async (): Promise<void> => {
    while (failure !== undefined && !closed.signal.aborted) {
      await clock.sleep(probeMs, closed.signal).catch(() => undefined);
      if (await isAccepting().catch(() => false)) failure = undefined;
    }
  };

  return {
    async observe(work) {
      try {
        const result = await work;
        failure = undefined;
        return result;
      } catch (error) {
        if (!(error instanceof Problem) || error.code !== "stream_unavailable") throw error;
        const isFirst = failure === undefined;
        failure = error.options.detail ?? error.code;
        if (isFirst) {
          log.warn({ err: error.options.cause }, "the stream does not accept envelopes");
          void probe();
        }
        throw error;
      }
    },
    status() {
      if (failure !== undefined) return { healthy: false, detail: failure };
      const { seconds } = waiting();
      return seconds > stalledSeconds
        ? { healthy: false, detail: `a message has been waiting for ${Math.round(seconds)} s` }
        : { healthy: true, detail: "storing" };
    },
    close: () => closed.abort(),
  };
};
