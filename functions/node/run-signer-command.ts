/**
 * Runs the external signer. Invariants: it gets no argument, no shell, no variable but PATH and no descriptor but its three pipes; at
 * most `concurrency` run at a time; each run ends within `timeoutMs` of its start, even if the program hangs, and by then its whole
 * process group has been killed.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { accessSync, constants, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { type Clock, systemClock } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { SignerCommand } from "../signer/external-command.ts";
import { SignerFault } from "../signer/signer.ts";

/** How to run the program. */
export interface SignerCommandOptions {
  /** Absolute path of the executable. */
  command: string;
  /** The PATH that it gets. */
  path: string;
  log: { warn(fields: object, message: string): void };
  /** Limits a run, and the wait for a slot; 30 s. */
  timeoutMs?: number;
  /** Measures both; the machine's clock. */
  clock?: Pick<Clock, "sleep">;
  /** 8. */
  concurrency?: number;
}

const stdoutBytesMax = 65_536;
const stderrBytesMax = 4096;

/** Creates the signer at `command`. Throws `SignerFault` unless it is a regular, executable file that only its owner may write. */
export const createSignerCommand = (options: SignerCommandOptions): SignerCommand => {
  const { command, timeoutMs = 30_000, clock = systemClock, concurrency = 8 } = options;
  const fault = () => executableFault(command);
  const slots = createSlots(concurrency, timeoutMs, clock);
  const atStart = fault();
  if (atStart !== undefined) throw new SignerFault(atStart);
  const stdio = createStdio();
  return {
    fault,
    run: (request) =>
      slots(async () => {
        const now = fault();
        if (now !== undefined) throw new SignerFault(now);
        return runOnce(options, stdio, request);
      }),
  };
};

const executableFault = (path: string): string | undefined => {
  try {
    const status = statSync(path);
    if (!status.isFile()) return "the signer command is not a regular file";
    if ((status.mode & 0o022) !== 0)
      return "the signer command may be written by group or world; chmod it to 0755";
    accessSync(path, constants.X_OK);
    return undefined;
  } catch (error) {
    const code = errorCode(error);
    if (code === "EACCES") return "the signer command is not executable";
    return "the signer command cannot be found; it is one path, without arguments";
  }
};

/** Runs at most `count` at a time; rejects work that acquires no slot within `waitMs`. */
const createSlots = (count: number, waitMs: number, clock: Pick<Clock, "sleep">) => {
  const waiting: (() => void)[] = [];
  let free = count;
  const slot = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = startTimer(clock, waitMs, () => {
        waiting.splice(waiting.indexOf(start), 1);
        reject(new SignerFault(`all ${count} signer processes were busy for ${waitMs / 1000} s`));
      });
      const start = () => {
        timer.stop();
        resolve();
      };
      waiting.push(start);
    });
  return async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (free > 0) free -= 1;
    else await slot();
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
};

const startTimer = (
  clock: Pick<Clock, "sleep">,
  ms: number,
  fire: () => void,
): { stop(): void } => {
  const stopped = new AbortController();
  clock.sleep(ms, stopped.signal).then(fire, () => undefined);
  return { stop: () => stopped.abort() };
};

type SignerProcess = ChildProcessByStdio<Writable, Readable, Readable>;

type Stdio = ["pipe", "pipe", "pipe", ...("ignore" | number)[]];

/**
 * Three pipes, and /dev/null in place of each descriptor that this process inherited from its parent: Node opens its own
 * close-on-exec, but passes inherited ones on. Only Linux lists them.
 */
const createStdio = (): Stdio => {
  const stdio: Stdio = ["pipe", "pipe", "pipe"];
  const inherited = inheritedDescriptors();
  if (inherited.length === 0) return stdio;
  const nothing = openSync("/dev/null", "r");
  for (let descriptor = 3; descriptor <= Math.max(...inherited); descriptor++) {
    stdio.push(inherited.includes(descriptor) ? nothing : "ignore");
  }
  return stdio;
};

const closeOnExec = 0o2000000;

const inheritedDescriptors = (): number[] => {
  try {
    return readdirSync("/proc/self/fd")
      .map(Number)
      .filter((descriptor) => descriptor > 2 && isInherited(descriptor));
  } catch {
    return [];
  }
};

const isInherited = (descriptor: number): boolean => {
  try {
    const flags =
      /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    // The descriptor of the listing itself, closed by now.
    return false;
  }
};

const runOnce = (
  options: SignerCommandOptions,
  stdio: Stdio,
  request: string,
): Promise<Uint8Array> => {
  const { command, path, log, timeoutMs = 30_000, clock = systemClock } = options;
  return new Promise((resolve, reject) => {
    // `detached` makes it the leader of a process group.
    const child = spawn(command, [], {
      cwd: "/",
      env: { PATH: path },
      detached: true,
      stdio,
    }) as SignerProcess;
    const stdout: Buffer[] = [];
    let stdoutBytes = 0;
    const stderr = keepHead(child.stderr, stderrBytesMax);

    let settled = false;
    const settle = (fault: SignerFault | undefined) => {
      if (settled) return;
      settled = true;
      timer.stop();
      // Once it has exited, its group has been killed, and its process id may belong to another.
      if (child.exitCode === null && child.signalCode === null) killGroup(child);
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      const written = stderr();
      if (written !== "")
        log.warn({ signer_stderr: written }, "the signer command wrote to stderr");
      if (fault === undefined) resolve(Buffer.concat(stdout));
      else reject(fault);
    };
    const timer = startTimer(clock, timeoutMs, () =>
      settle(new SignerFault(`the signer command took longer than ${timeoutMs / 1000} s`)),
    );
    child.stdout.on("data", (chunk: Buffer) => {
      stdoutBytes += chunk.length;
      if (stdoutBytes <= stdoutBytesMax) stdout.push(chunk);
      else settle(new SignerFault(`the signer command answered more than ${stdoutBytesMax} bytes`));
    });
    child.on("error", (cause) =>
      settle(new SignerFault("the signer command could not be run", { cause })),
    );
    // A process that it left running may keep the pipes open. After that process is killed, the rest of the output is still read.
    child.on("exit", () => killGroup(child));
    child.on("close", (code, signal) => {
      if (code === 0) return settle(undefined);
      settle(
        new SignerFault(
          `the signer command ${signal === null ? `exited with ${code}` : `died of ${signal}`}`,
        ),
      );
    });
    // A program that closes stdin early may still return a good certificate.
    child.stdin.on("error", () => undefined);
    child.stdin.end(request);
  });
};

/** Reads a stream to its end; the returned function gives its first `bytesMax` bytes as text. */
const keepHead = (stream: Readable, bytesMax: number): (() => string) => {
  let head = Buffer.alloc(0);
  stream.on("data", (chunk: Buffer) => {
    if (head.length < bytesMax)
      head = Buffer.concat([head, chunk.subarray(0, bytesMax - head.length)]);
  });
  stream.on("error", () => undefined);
  return () => head.toString("utf8").trim();
};

const killGroup = ({ pid }: SignerProcess): void => {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // No process of the group is left.
  }
};
