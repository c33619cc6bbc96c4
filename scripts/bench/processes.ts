import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

/** A program that logs JSON lines. */
export interface BenchProcess {
  pid: number;
  /** The records that it logged until it was ready. */
  records: Readonly<Record<string, unknown>>[];
  /** SIGTERM; resolves once it has ended. */
  stop(): Promise<void>;
}

/** Starts a program under this Node; resolves when it logs `message`, and rejects with its output if it ends before. */
export const startProcess = async (
  args: readonly string[],
  message: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<BenchProcess> => {
  const child: ChildProcess = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  const lines: string[] = [];
  const records: Readonly<Record<string, unknown>>[] = [];
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      if (stream)
        createInterface(stream).on("line", (line) => {
          if (lines.push(line) > 100) lines.shift();
          if (!line.startsWith("{")) return;
          const record: Record<string, unknown> = JSON.parse(line);
          if (records.length < 100) records.push(record);
          if (record.msg === message) resolve();
        });
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}:\n${lines.join("\n")}`)));
  });
  return {
    pid: child.pid ?? 0,
    records,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
};

/** Reads the memory of a process from /proc. */
export const memoryOf = (pid: number): { nowMb: number; peakMb: number } => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mb = (name: string) => Math.round(Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 102.4) / 10;
  return { nowMb: mb("VmRSS"), peakMb: mb("VmHWM") };
};

/** Clock ticks of /proc, the same on every Linux. */
const ticksPerSecond = 100;

/** Returns the CPU seconds that a process and all its children, ended ones included, have used. */
export const cpuSecondsOf = (pid: number): number => {
  let ticks = ticksOf(pid)?.withEndedChildren ?? 0;
  for (const name of readdirSync("/proc")) {
    const child = /^\d+$/.test(name) ? ticksOf(Number(name)) : undefined;
    if (child?.parent === pid) ticks += child.withEndedChildren;
  }
  return ticks / ticksPerSecond;
};

const ticksOf = (pid: number): { parent: number; withEndedChildren: number } | undefined => {
  try {
    // The name, in parentheses, may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
    const [parent = 0, ...times] = [fields[1], ...fields.slice(11, 15)].map(Number);
    return { parent, withEndedChildren: times.reduce((sum, ticks) => sum + ticks, 0) };
  } catch {
    return undefined;
  }
};
