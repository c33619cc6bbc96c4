import { type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { systemClock } from "#kit/clock.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import { isListening } from "#scripts/ports.ts";

/** Starts a program; resolves with what stops it once it listens on these ports of loopback, and rejects with its errors if it ends. */
export const startListening = async (
  command: { program: string; args: readonly string[]; ports: readonly number[] },
  options: Pick<SpawnOptions, "uid" | "gid"> = {},
) => {
  const { program, args, ports } = command;
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"], ...options });
  const errors = text(child.stderr);
  const exited = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
  };
  const dead = new AbortController();
  void exited.then(async () => dead.abort(new Error(`${program} ended: ${await errors}`)));
  const waiting = { clock: systemClock, signal: dead.signal, everyMs: 10, timeoutMs: 60_000 };
  for (const port of ports)
    await waitUntil(
      { what: `${program} listens`, ...waiting },
      async () => (await isListening(`127.0.0.1:${port}`)) || undefined,
    ).catch(async (error) => {
      await stop();
      throw error;
    });
  return stop;
};
