import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

/** A program that runs. */
export interface RunningProgram extends AsyncDisposable {
  pid: number;
  /** Sends a signal, SIGTERM unless given; resolves once the program has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** How a program is started, and what a line of its output has once it works. */
export interface StartCommand {
  command: readonly [string, ...string[]];
  ready: RegExp;
}

/** Starts a program; resolves when a line of its output matches `ready`, and rejects with its output if it ends before. */
export const startProgram = async (
  { command: [file, ...args], ready }: StartCommand,
  onLine: (line: string) => void = () => undefined,
  env: NodeJS.ProcessEnv = process.env,
): Promise<RunningProgram> => {
  const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit").catch(() => undefined);
  const lines: string[] = [];
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream).on("line", (line) => {
        if (lines.push(line) > 100) lines.shift();
        onLine(line);
        if (ready.test(line)) resolve();
      });
    child.once("error", reject);
    child.once("exit", (code) =>
      reject(new Error(`${file} ${args[0]} ended with ${code}:\n${lines.join("\n")}`)),
    );
  });
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    await ended;
  };
  return { pid: child.pid ?? 0, stop, [Symbol.asyncDispose]: () => stop() };
};

/** A program that logs JSON lines. */
export interface BenchProcess extends RunningProgram {
  /** The first records that it logged, with those until it was ready. */
  records: Readonly<Record<string, unknown>>[];
}

/** Starts a program under this Node; resolves when it logs `message`. */
export const startProcess = async (
  args: readonly string[],
  message: string,
  env?: NodeJS.ProcessEnv,
): Promise<BenchProcess> => {
  const records: Readonly<Record<string, unknown>>[] = [];
  const onLine = (line: string) => {
    if (line.startsWith("{") && records.length < 100) records.push(JSON.parse(line));
  };
  const program: StartCommand = {
    command: [process.execPath, ...args],
    ready: new RegExp(`"msg":"${message}"`),
  };
  return { ...(await startProgram(program, onLine, env)), records };
};

/** Reads the memory of a process from /proc. */
export const memoryOf = (pid: number): { nowMb: number; peakMb: number } => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mb = (name: string) =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 102.4) / 10;
  return { nowMb: mb("VmRSS"), peakMb: mb("VmHWM") };
};

/** Returns the CPU seconds that this process has used, more finely than /proc shows them. */
export const ownCpuSeconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/** Does `work` in this process; returns its result, its CPU seconds and how many seconds it took. */
export const measureHere = async <Result>(work: () => Result | Promise<Result>) => {
  const meter = startMeter(() => ({ own: ownCpuSeconds() }));
  const result = await work();
  const { cpu, seconds } = meter();
  return { result, seconds, cpuSeconds: cpu.own };
};

/** Returns a function that returns the seconds since this call, and the CPU seconds of each part since then. */
export const startMeter = <Part extends string>(read: () => Readonly<Record<Part, number>>) => {
  const before = read();
  const startedAt = performance.now();
  return () => {
    const seconds = (performance.now() - startedAt) / 1000;
    const now = read();
    const cpu = {} as Record<Part, number>;
    for (const part in before) cpu[part] = now[part] - before[part];
    return { seconds, cpu };
  };
};

/** Clock ticks of /proc, the same on every Linux. */
const ticksPerSecond = 100;

/** A process as /proc shows it. */
export interface ProcessTimes {
  pid: number;
  parent: number;
  /** CPU time in clock ticks, that of children which have ended and were waited for included. */
  ticks: number;
}

/** Returns the CPU seconds that a process and all its descendants, ended ones included, have used. */
export const cpuSecondsOf = (
  pid: number,
  processes: readonly ProcessTimes[] = readProcesses(),
): number => {
  const treeTicks = (root: ProcessTimes): number =>
    processes
      .filter(({ parent }) => parent === root.pid)
      .reduce((sum, child) => sum + treeTicks(child), root.ticks);
  const root = processes.find((process) => process.pid === pid);
  return root === undefined ? 0 : treeTicks(root) / ticksPerSecond;
};

const readProcesses = (): ProcessTimes[] =>
  readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? readTimes(name) : []));

const readTimes = (name: string): ProcessTimes[] => {
  try {
    return [parseProcessTimes(readFileSync(`/proc/${name}/stat`, "utf8"))];
  } catch {
    // It has ended since its name was read.
    return [];
  }
};

/** Parses a /proc/<pid>/stat. The name of the program, in parentheses, may contain spaces and parentheses. */
export const parseProcessTimes = (stat: string): ProcessTimes => {
  const fields = stat.slice(stat.lastIndexOf(") ") + 2).split(" ");
  const times = fields.slice(11, 15).map(Number);
  return {
    pid: Number.parseInt(stat, 10),
    parent: Number(fields[1]),
    ticks: times.reduce((sum, ticks) => sum + ticks, 0),
  };
};
