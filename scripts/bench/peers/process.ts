import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { systemClock } from "../../../kit/clock.ts";
import { createLabPki } from "../../lab/ca/pki.ts";
import { findPorts } from "../../ports.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import type { PairContext } from "./pairs.ts";

/** A program of another project that runs. */
export interface RunningProgram extends AsyncDisposable {
  pid: number;
  /** Sends a signal, SIGTERM unless given; resolves once the program has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts a program; resolves when a line of its output matches `ready`, and rejects with its output if it ends before. */
export const startProgram = async (
  [file, ...args]: readonly [string, ...string[]],
  ready: RegExp,
  env: NodeJS.ProcessEnv = process.env,
): Promise<RunningProgram> => {
  const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit").catch(() => undefined);
  const lines: string[] = [];
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream).on("line", (line) => {
        if (lines.push(line) > 50) lines.shift();
        if (ready.test(line)) resolve();
      });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`${file} ended with ${code}:\n${lines.join("\n")}`)));
  });
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    await ended;
  };
  return { pid: child.pid ?? 0, stop, [Symbol.asyncDispose]: () => stop() };
};

/** Prepares a peer's server: a folder with certificates, a free port, and a function that opens connections; all ends with the pair. */
export const preparePeer = async (name: string, defer: PairContext["defer"]) => {
  const folder = await mkdtemp(join(tmpdir(), `bench-${name}-`));
  defer({ [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) });
  const { edge, serverCaFile } = await createLabPki({ dir: folder, clock: systemClock });
  const ca = await readFile(serverCaFile, "utf8");
  const [port = 0] = await findPorts(1);
  const connect = async (count: number): Promise<HttpsSender[]> => {
    const connections = await Promise.all(Array.from({ length: count }, () => connectHttps({ port, ca })));
    defer({ [Symbol.asyncDispose]: async () => connections.forEach((connection) => void connection.close()) });
    return connections;
  };
  return { folder, edge, port, connect };
};
