import { fork } from "node:child_process";
import { once } from "node:events";
import { mergeFigures, type TakenFigures } from "./figures.ts";
import type {
  WorkerCommands,
  WorkerFleet,
  WorkerRequest,
  WorkerResponse,
  WorkerState,
} from "./worker-protocol.ts";

/** A fleet of simulated hosts in processes of their own. */
export interface FleetWorkers {
  pids: readonly number[];
  /** Runs a command in each worker. */
  all<Name extends keyof WorkerCommands>(name: Name, argument: WorkerCommands[Name]): Promise<void>;
  /** Returns what all hosts did since the last call. */
  take(): Promise<{ figures: TakenFigures; connected: number; accepted: number }>;
  /** Renews so many certificates a second in all. */
  renew(perSecond: number): Promise<void>;
  stop(): Promise<void>;
}

const program = new URL("./worker.ts", import.meta.url);

/** Starts processes with at most `hostsMax` hosts each: a process may have a limited number of open files. */
export const startFleetWorkers = async (
  fleet: Omit<WorkerFleet, "first">,
  { hostsMax }: { hostsMax: number },
): Promise<FleetWorkers> => {
  const count = Math.ceil(fleet.count / hostsMax);
  const workers = Array.from({ length: count }, startWorker);
  const each = Math.ceil(fleet.count / count);
  const openFleet = (index: number): WorkerFleet => {
    const first = index * each;
    return { ...fleet, first, count: Math.min(each, fleet.count - first) };
  };
  await Promise.all(workers.map((worker, index) => worker.call("open", openFleet(index))));
  const call = <Name extends keyof WorkerCommands>(name: Name, argument: WorkerCommands[Name]) =>
    Promise.all(workers.map((worker) => worker.call(name, argument)));
  return {
    pids: workers.map(({ pid }) => pid),
    all: async (name, argument) => void (await call(name, argument)),
    async take() {
      const states = (await call("take", null)) as WorkerState[];
      return {
        figures: mergeFigures(states.map(({ figures }) => figures)),
        connected: states.reduce((sum, { connected }) => sum + connected, 0),
        accepted: states.reduce((sum, { accepted }) => sum + accepted, 0),
      };
    },
    renew: async (perSecond) => void (await call("renew", { perSecond: perSecond / count })),
    stop: async () => void (await Promise.all(workers.map(({ stop }) => stop()))),
  };
};

const startWorker = () => {
  const child = fork(program, { serialization: "advanced", stdio: "inherit" });
  const calls = new Map<number, PromiseWithResolvers<unknown>>();
  let nextId = 0;
  child.on("message", ({ id, result, error }: WorkerResponse) => {
    if (error === undefined) calls.get(id)?.resolve(result);
    else calls.get(id)?.reject(new Error(error));
    calls.delete(id);
  });
  const ended = once(child, "exit").then(() => {
    for (const { reject } of calls.values()) reject(new Error("a worker has ended"));
  });
  return {
    pid: child.pid ?? 0,
    call<Name extends keyof WorkerCommands>(name: Name, argument: WorkerCommands[Name]) {
      const answer = Promise.withResolvers<unknown>();
      const id = nextId++;
      calls.set(id, answer);
      const message: WorkerRequest = { id, name, argument };
      child.send(message);
      return answer.promise;
    },
    async stop() {
      if (child.connected) child.disconnect();
      await ended;
    },
  };
};
