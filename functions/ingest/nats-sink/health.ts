import type { JetStreamManager } from "@nats-io/jetstream";
import { Problem } from "#functions/problems.ts";
import type { Clock } from "#kit/clock.ts";
import { ConfigError } from "#kit/env.ts";
import type { Committer } from "../committer.ts";
import type { StreamNames } from "./prepare-streams.ts";
import type { Publisher } from "./publisher.ts";

const probeMs = 500;
const inspectionMs = 1_000;
const stalledSeconds = 10;

/**
 * Makes the health. Inspects the streams and their servers each second: with a fault, nothing is acknowledged. After a failure it queries
 * the streams until they answer and are below their limits: a core that receives no frames, because it is not ready, would stay so.
 */
export const createHealth = ({
  manager,
  streams,
  clock,
  log,
  waiting,
  inspect,
}: {
  manager: Pick<JetStreamManager, "streams">;
  streams: StreamNames;
  clock: Clock;
  log: { warn(fields: object, message: string): void };
  waiting: Publisher["waiting"];
  /** Throws `ConfigError` when an acknowledgement would promise more than the streams do. `round` counts the calls. */
  inspect(round: number): Promise<void>;
}) => {
  const closed = new AbortController();
  let failure: string | undefined;
  let fault: ConfigError | undefined;

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

  const watch = async (): Promise<void> => {
    for (let round = 1; !closed.signal.aborted; round++) {
      await clock.sleep(inspectionMs, closed.signal).catch(() => undefined);
      if (closed.signal.aborted) return;
      try {
        await inspect(round);
        if (fault) log.warn({}, "the streams are as they must be again; core stores envelopes");
        fault = undefined;
      } catch (error) {
        // Streams that do not answer fail by themselves.
        if (!(error instanceof ConfigError) || error.message === fault?.message) continue;
        fault = error;
        log.warn({ faults: error.faults }, "core acknowledges nothing: the streams would lose it");
      }
    }
  };
  void watch();

  return {
    /** Runs work on the streams unless they have a fault, watches its outcome and returns it. */
    async observe<Result>(work: () => Promise<Result>): Promise<Result> {
      if (fault)
        throw new Problem("stream_unavailable", {
          detail: "the stream would lose what it acknowledges",
        });
      try {
        const result = await work();
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
    /** Returns whether the streams store what they receive. */
    status(): ReturnType<Committer["health"]> {
      if (fault)
        return { healthy: false, detail: fault.faults.map(({ message }) => message).join("; ") };
      if (failure !== undefined) return { healthy: false, detail: failure };
      const { seconds } = waiting();
      return seconds > stalledSeconds
        ? { healthy: false, detail: `a message has been waiting for ${Math.round(seconds)} s` }
        : { healthy: true, detail: "storing" };
    },
    close: () => closed.abort(),
  };
};
