import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { programPaths } from "../../../scripts/bundle/bundle-programs.ts";

/** A program that is killed again and again, and started again at once. */
export interface Victim {
  start(): Promise<void>;
  /** Kills and starts it, each time after `pauseMs()`, until `signal` aborts; leaves it running. */
  harass(pauseMs: () => number, signal: AbortSignal): Promise<void>;
  kills(): number;
  /** Kills it for good. */
  end(): Promise<void>;
}

/** A victim that `start` starts, or the collector with these arguments. `beforeKill` gets its process id. */
export const createVictim = (
  program: readonly string[] | (() => Promise<ChildProcess>),
  beforeKill: (pid: number) => void = () => undefined,
): Victim => {
  let child: ChildProcess | undefined;
  let kills = 0;
  const start = async () => {
    child = typeof program === "function" ? await program() : spawnCollector(program);
  };
  const kill = async () => {
    if (child === undefined || child.exitCode !== null) throw new Error("the program ended by itself");
    beforeKill(child.pid ?? 0);
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  return {
    start,
    kills: () => kills,
    harass: async (pauseMs, signal) => {
      for (;;) {
        await sleep(pauseMs(), undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return;
        await kill();
        kills += 1;
        await start();
      }
    },
    end: async () => {
      if (child !== undefined && child.exitCode === null && child.signalCode === null) await kill();
    },
  };
};

const spawnCollector = (args: readonly string[]): ChildProcess =>
  spawn(process.execPath, [programPaths["svc-collector"], ...args], { stdio: ["ignore", "ignore", "inherit"] });
