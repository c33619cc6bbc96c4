/** The thread of one attack, so that it does not slow the client that is measured. */
import { parentPort, workerData } from "node:worker_threads";
import { attacks, type Target } from "./attacks.ts";

const { name, seconds, ...target } = workerData as { name: string; seconds: number } & Omit<Target, "signal">;
const opened = await attacks[name]?.({ ...target, signal: AbortSignal.timeout(seconds * 1_000) });
parentPort?.postMessage(opened);
