import type { CollectorEnv } from "#collector/env.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestClock, type TestClock } from "./clock.ts";

/** The environment of collector commands, with captured output. Never root, even if root runs the tests. */
export interface TestCollectorEnv extends CollectorEnv {
  clock: TestClock;
  out(): string;
  err(): string;
  /** Stops the command as SIGTERM does. */
  stop(): void;
}

/** Creates an environment with real files and sockets and a test's wall clock. Sleeps, such as those before a retry, last one turn. */
export const createTestCollectorEnv = (
  over: {
    stdin?: string;
    effectiveUid?: number;
    now?: number;
    variables?: CollectorEnv["variables"];
  } = {},
): TestCollectorEnv => {
  const out: string[] = [];
  const err: string[] = [];
  const stop = new AbortController();
  const clock = createTestClock(over.now);
  return {
    clock: {
      ...clock,
      monotonic: systemClock.monotonic,
      sleep: (_ms, signal) => systemClock.sleep(0, signal),
    },
    entropy: systemEntropy,
    stdin: (async function* () {
      yield over.stdin ?? "";
    })(),
    stdout: { write: (text) => void out.push(text) },
    stderr: { write: (text) => void err.push(text) },
    effectiveUid: over.effectiveUid ?? 1000,
    hostname: "host.test",
    variables: over.variables ?? {},
    platform: "linux/amd64",
    stopSignal: () => stop.signal,
    out: () => out.join(""),
    err: () => err.join(""),
    stop: () => stop.abort(new Error("SIGTERM")),
  };
};
