/** The thread of one attack, so that it does not slow the client that is measured. */
import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { attacks, type Target } from "./attacks.ts";

const { name, seconds, ...target } = workerData as { name: string; seconds: number } & Omit<Target, "signal">;
// Of this thread alone: attackers have machines of their own, and would otherwise take the CPU of core and of the client.
setPriority(19);
const opened = await attacks[name]?.({ ...target, signal: AbortSignal.timeout(seconds * 1_000) });
const { user, system } = process.threadCpuUsage();
parentPort?.postMessage({ opened, cpuSeconds: (user + system) / 1e6 });
