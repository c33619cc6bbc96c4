/** The thread of one attack, so that it does not slow the client that is measured. */
import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { type AgentTarget, runAgentAttack } from "./agent-attacks.ts";
import { attacks, sendMessages, type Target } from "./attacks.ts";
import { type HttpTarget, httpAttacks } from "./http-attacks.ts";
import type { MessageAttack } from "./message-attacks.ts";

const { name, seconds, message, ...rest } = workerData as {
  name: string;
  seconds: number;
  message?: MessageAttack;
};
// Of this thread alone: attackers have machines of their own, and would otherwise take the CPU of core and of the client.
setPriority(19);
const stop = new AbortController();
// AbortSignal.timeout does not keep the thread.
setTimeout(() => stop.abort(), seconds * 1_000);
const target = { ...rest, signal: stop.signal };
const ofAgents = await runAgentAttack(name, target as unknown as AgentTarget);
const opened = await (message === undefined
  ? (attacks[name]?.(target as unknown as Target) ??
    httpAttacks[name]?.(target as unknown as HttpTarget))
  : sendMessages(target as unknown as Target, message));
const { user, system } = process.threadCpuUsage();
parentPort?.postMessage({ opened, cpuSeconds: (user + system) / 1e6, ...ofAgents });
