import type { StreamInfo } from "@nats-io/jetstream";
import { Problem } from "#functions/problems.ts";
import type { Clock } from "#kit/clock.ts";
import { ConfigError } from "#kit/env.ts";
import type { Committer } from "../committer.ts";
import type { Publisher } from "./publisher.ts";

const inspectionMs = 1_000;
const stalledSeconds = 10;

/**
 * Creates the health. Inspects the streams and their servers each second: with a fault, nothing is acknowledged. After a failure, the first
 * inspection that finds the streams below their limits ends it: a core that receives no frames, because it is not ready, would stay so.
 */
export const createHealth = ({
  clock,
  log,
  waiting,
  inspect,
}: {
  clock: Clock;
  log: { warn(fields: object, message: string): void };
  waiting: Publisher["waiting"];
  /**
   * Returns the streams. Throws `ConfigError` when an acknowledgement would promise more than they do. `round` counts the calls.
   */
  inspect(round: number): Promise<readonly StreamInfo[]>;
}) => {
  const closed = new AbortController();
  let failure: string | undefined;
  let fault: ConfigError | undefined;

  const runInspection = async (round: number) => {
    try {
      const infos = await inspect(round);
      if (fault) log.warn({}, "the streams are as they must be again; core stores envelopes");
      fault = undefined;
      if (infos.every(isBelowLimits)) failure = undefined;
    } catch (error) {
      // Streams that do not answer fail by themselves.
      if (!(error instanceof ConfigError) || error.message === fault?.message) return;
      fault = error;
      log.warn({ faults: error.faults }, "core acknowledges nothing: the streams would lose it");
    }
  };
  const watch = async (): Promise<void> => {
    for (let round = 1; ; round++) {
      await clock.sleep(inspectionMs, closed.signal).catch(() => undefined);
      if (closed.signal.aborted) return;
      await runInspection(round);
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
        if (failure === undefined)
          log.warn({ err: error.options.cause }, "the stream does not accept envelopes");
        failure = error.options.detail ?? error.code;
        throw error;
      }
    },
    /** Reports whether the streams store what they receive. */
    status(): ReturnType<Committer["health"]> {
      if (fault)
        return { healthy: false, detail: fault.faults.map(({ message }) => message).join("; ") };
      if (failure !== undefined) return { healthy: false, detail: failure };
      const { seconds } = waiting();
      return seconds > stalledSeconds
        ? { healthy: false, detail: `A message has been waiting for ${Math.round(seconds)} s.` }
        : { healthy: true, detail: "Telemetry is stored in the stream." };
    },
    close: () => closed.abort(),
  };
};

const isBelowLimits = ({ state, config }: StreamInfo): boolean =>
  (config.max_bytes <= 0 || state.bytes < config.max_bytes) &&
  (config.max_msgs <= 0 || state.messages < config.max_msgs);
