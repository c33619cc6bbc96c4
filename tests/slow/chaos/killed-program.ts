import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { programPaths } from "#scripts/bundle/bundle-programs.ts";

/** A program that is killed repeatedly and restarted at once. */
export type KilledProgram = ReturnType<typeof createKilledProgram>;

/** A program that ended by itself is started again after it. */
const restartMs = 200;

/**
 * Creates one that `program` starts, or the collector with these arguments. `beforeKill` receives its process id. With `onEnd`, which receives
 * its exit code or signal, a program that ends by itself is started again.
 */
export const createKilledProgram = (
  program: readonly string[] | (() => Promise<ChildProcess>),
  {
    beforeKill = () => undefined,
    onEnd,
  }: { beforeKill?: (pid: number) => void; onEnd?: (how: number | string | null) => void } = {},
) => {
  let child: ChildProcess | undefined;
  let started = Promise.resolve();
  const killed = new WeakSet<ChildProcess>();
  const startOnce = async () => {
    const running = typeof program === "function" ? await program() : spawnCollector(program);
    child = running;
    running.once("exit", (code, signal) => {
      if (!onEnd || killed.has(running)) return;
      onEnd(code ?? signal);
      started = sleep(restartMs).then(startOnce);
      started.catch(() => undefined);
    });
  };
  const start = () => {
    started = startOnce();
    return started;
  };
  const kill = async (signal: "SIGKILL" | "SIGTERM" = "SIGKILL") => {
    await started;
    if (child === undefined || child.exitCode !== null)
      throw new Error("the program ended by itself");
    killed.add(child);
    beforeKill(child.pid ?? 0);
    child.kill(signal);
    await once(child, "exit");
  };
  const restart = async () => {
    await kill();
    await start();
  };
  return {
    start,
    /** Kills it and restarts it at once. */
    restart,
    /** Ends it as its service manager does, and does not restart it. */
    stop: () => kill("SIGTERM"),
    /** Its process id; 0 before the first start. */
    pid: () => child?.pid ?? 0,
    /** Kills it and does not restart it. */
    end: async () => {
      await started.catch(() => undefined);
      if (child !== undefined && child.exitCode === null && child.signalCode === null) await kill();
    },
  };
};

const spawnCollector = (args: readonly string[]) =>
  spawn(process.execPath, [programPaths["svc-collector"], ...args], {
    stdio: ["ignore", "ignore", "inherit"],
  });
