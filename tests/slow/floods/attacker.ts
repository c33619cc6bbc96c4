/** The thread of one attack, so that it does not slow the client that is measured. */
import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { attacks, type Target } from "./attacks.ts";
import { type HttpTarget, httpAttacks } from "./http-attacks.ts";

const { name, seconds, ...rest } = workerData as { name: string; seconds: number };
// Of this thread alone: attackers have machines of their own, and would otherwise take the CPU of core and of the client.
setPriority(19);
const target = { ...rest, signal: AbortSignal.timeout(seconds * 1_000) };
const opened = await (attacks[name]?.(target as unknown as Target) ??
  httpAttacks[name]?.(target as unknown as HttpTarget));
const { user, system } = process.threadCpuUsage();
parentPort?.postMessage({ opened, cpuSeconds: (user + system) / 1e6 });
