import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { systemClock } from "#kit/clock.ts";
import { whenDone } from "./new-folder.ts";

/** A program of this repository as a process, with its log. */
export interface Program {
  child: ChildProcess;
  /** The lines of its stdout, as JSON. */
  records: Record<string, unknown>[];
  stderr: string;
  /** Resolves, once its output is read, with its exit code; null after a signal. */
  exited: Promise<number | null>;
  hasExited: boolean;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Another program that serves as core (tests/slow/replicas). */
const otherCore = process.env.SVC_LAB_CORE;
/** The bundles of entry files, which `tests/global-setup.ts` builds: the tests run what ships, and it starts in a third of the time. */
const bundles: Readonly<Record<string, string>> = JSON.parse(process.env.SVC_TEST_BUNDLES ?? "{}");

/** Returns the file that runs as the program with this entry file: its bundle, if the test run built one. */
export const programFile = (entry: string): string => resolve(root, bundles[entry] ?? entry);

/**
 * Starts the program of an entry file of this repository, or of another working tree, with exactly this environment; by default with this
 * process's Node.
 */
export const startProgram = (
  path: string,
  args: readonly string[],
  env: Record<string, string> = {},
  node = process.execPath,
): Program => {
  const file = path === "functions/main.ts" && args.length === 0 ? (otherCore ?? path) : path;
  const child = spawn(node, [programFile(file), ...args], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const program: Program = {
    child,
    records: [],
    stderr: "",
    // "exit" may arrive before the last lines.
    exited: once(child, "close").then(([code]) => {
      program.hasExited = true;
      return code as number | null;
    }),
    hasExited: false,
  };
  createInterface(child.stdout).on("line", (line) => program.records.push(JSON.parse(line)));
  child.stderr.on("data", (chunk) => {
    program.stderr += chunk;
  });
  return program;
};

/** Waits for the first record with this message; throws after 90 seconds, or when the program has ended without it. */
export const logged = async (
  program: Program,
  message: string,
): Promise<Record<string, unknown>> => {
  const deadline = Date.now() + 90_000;
  for (;;) {
    const record = program.records.find(({ msg }) => msg === message);
    if (record !== undefined) return record;
    if (Date.now() > deadline || program.hasExited)
      throw new Error(`no ${message}: ${program.stderr}`);
    await systemClock.sleep(20);
  }
};

/** Starts core with exactly this environment, until the end of the test, or of the file or the group; resolves once it is ready. */
export const startCore = async (env: Record<string, string>, entry = "functions/main.ts") => {
  const program = startProgram(entry, [], env);
  whenDone(() => {
    program.child.kill("SIGKILL");
    return program.exited;
  });
  const { port, ingest_port } = await logged(program, "ready");
  const url = `http://127.0.0.1:${port}`;
  return { program, url, port: Number(port), ingestPort: Number(ingest_port) };
};

/** Sends SIGTERM; resolves with the exit code once the process has ended. */
export const stopProgram = (program: Program): Promise<number | null> => {
  program.child.kill("SIGTERM");
  return program.exited;
};
