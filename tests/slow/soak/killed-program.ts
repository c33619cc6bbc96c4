import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { programPaths } from "../../../scripts/bundle/bundle-programs.ts";

/** A program that is killed repeatedly and restarted at once. */
export interface KilledProgram {
  start(): Promise<void>;
  /** Kills it and restarts it at once. */
  restart(): Promise<void>;
  /** Its process id; 0 before the first start. */
  pid(): number;
  /** Kills and restarts it after each `pauseMs()`, until `signal` aborts; leaves it running. */
  killRepeatedly(pauseMs: () => number, signal: AbortSignal): Promise<void>;
  kills(): number;
  /** Kills it and does not restart it. */
  end(): Promise<void>;
}

/** Creates one that `program` starts, or the collector with these arguments. `beforeKill` receives its process id. */
export const createKilledProgram = (
  program: readonly string[] | (() => Promise<ChildProcess>),
  beforeKill: (pid: number) => void = () => undefined,
): KilledProgram => {
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
  const restart = async () => {
    await kill();
    kills += 1;
    await start();
  };
  return {
    start,
    restart,
    pid: () => child?.pid ?? 0,
    kills: () => kills,
    killRepeatedly: async (pauseMs, signal) => {
      for (;;) {
        await sleep(pauseMs(), undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return;
        await restart();
      }
    },
    end: async () => {
      if (child !== undefined && child.exitCode === null && child.signalCode === null) await kill();
    },
  };
};

const spawnCollector = (args: readonly string[]): ChildProcess =>
  spawn(process.execPath, [programPaths["svc-collector"], ...args], { stdio: ["ignore", "ignore", "inherit"] });
