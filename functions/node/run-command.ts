/**
 * Runs a program of the operator: the external signer, or the one that prints the database's password. Invariants: it gets no argument, no
 * shell, no variable but PATH and no descriptor but its three pipes; at most `concurrency` run at a time; each run ends within `timeoutMs` of
 * its start, even if the program hangs, and by then its whole process group has been killed.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { accessSync, constants, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { type Clock, callAfter, systemClock } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { SignerCommand } from "../signer/external-command.ts";

/** How to run the program. */
export interface CommandSettings {
  /** Names it in messages: `signer command`. */
  name: string;
  /** The class of its faults. */
  Fault: new (
    message: string,
    options?: ErrorOptions,
  ) => Error;
  /** Absolute path of the executable. */
  command: string;
  /** The PATH that it gets; by default that of this process. */
  path?: string;
  log: { warn(fields: object, message: string): void };
  /** Limits a run, and the wait for a slot; 30 s by default. */
  timeoutMs?: number;
  /** Measures both; the machine's clock by default. */
  clock?: Pick<Clock, "sleep">;
  /** Runs at the same time; 8 by default. */
  concurrency?: number;
}

const path = process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin";
const stdoutBytesMax = 65_536;
const stderrBytesMax = 4096;

/** Creates the program at `command`. Throws a fault unless it is a regular, executable file that only its owner may write. */
export const createCommand = (options: CommandSettings): SignerCommand => {
  const settings = { path, timeoutMs: 30_000, clock: systemClock, concurrency: 8, ...options };
  const slots = createQueuedSlots(settings);
  const fault = () => executableFault(options);
  const checkExecutable = () => {
    const found = fault();
    if (found !== undefined) throw new options.Fault(found);
  };
  checkExecutable();
  const stdio = createStdio();
  return {
    fault,
    run: (request) =>
      slots(async () => {
        checkExecutable();
        return runOnce(settings, stdio, request);
      }),
  };
};

const executableFault = ({ command, name }: CommandSettings): string | undefined => {
  try {
    const status = statSync(command);
    if (!status.isFile()) return `the ${name} is not a regular file`;
    if ((status.mode & 0o022) !== 0)
      return `the ${name} may be written by group or world; chmod it to 0755`;
    accessSync(command, constants.X_OK);
    return undefined;
  } catch (error) {
    const code = errorCode(error);
    if (code === "EACCES") return `the ${name} is not executable`;
    return `the ${name} cannot be found; it is one path, without arguments`;
  }
};

/** Runs at most `concurrency` at a time, the others in their order; rejects work that acquires no slot within `timeoutMs`. */
const createQueuedSlots = ({
  name,
  Fault,
  concurrency,
  timeoutMs,
  clock,
}: Omit<Required<CommandSettings>, "command" | "path" | "log">) => {
  const waiting = new Set<() => void>();
  let free = concurrency;
  const slot = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const start = () => {
        cancel();
        waiting.delete(start);
        resolve();
      };
      const cancel = callAfter(clock, timeoutMs, () => {
        if (waiting.delete(start))
          reject(
            new Fault(
              `all ${concurrency} runs of the ${name} took longer than ${timeoutMs / 1000} s`,
            ),
          );
      });
      waiting.add(start);
    });
  return async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (free > 0) free -= 1;
    else await slot();
    try {
      return await work();
    } finally {
      const [next] = waiting;
      if (next === undefined) free += 1;
      else next();
    }
  };
};

type CommandProcess = ChildProcessByStdio<Writable, Readable, Readable>;

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
  { command, name, Fault, path, log, timeoutMs, clock }: Required<CommandSettings>,
  stdio: Stdio,
  request: string,
): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    // `detached` makes it the leader of a process group.
    const child = spawn(command, [], {
      cwd: "/",
      env: { PATH: path },
      detached: true,
      stdio,
    }) as CommandProcess;
    const couldNotRun = (cause: unknown) => new Fault(`the ${name} could not be run`, { cause });
    // Without a free descriptor, Node returns a child that has no pipes and then emits why.
    if (child.stdin === undefined) {
      child.on("error", (cause) => reject(couldNotRun(cause)));
      return;
    }
    const stdout: Buffer[] = [];
    let stdoutBytes = 0;
    const stderr = keepHead(child.stderr, stderrBytesMax);

    let settled = false;
    const settle = (fault: Error | undefined) => {
      if (settled) return;
      settled = true;
      cancelTimeout();
      // Once it has exited, its group has been killed, and its process id may belong to another.
      if (child.exitCode === null && child.signalCode === null) killGroup(child);
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      const written = stderr();
      if (written !== "") log.warn({ stderr: written }, `the ${name} wrote to stderr`);
      if (fault === undefined) resolve(Buffer.concat(stdout));
      else reject(fault);
    };
    const cancelTimeout = callAfter(clock, timeoutMs, () =>
      settle(new Fault(`the ${name} took longer than ${timeoutMs / 1000} s`)),
    );
    child.stdout.on("data", (chunk: Buffer) => {
      stdoutBytes += chunk.length;
      if (stdoutBytes <= stdoutBytesMax) stdout.push(chunk);
      else settle(new Fault(`the ${name} answered more than ${stdoutBytesMax} bytes`));
    });
    child.on("error", (cause) => settle(couldNotRun(cause)));
    // A process that it left running may keep the pipes open. After that process is killed, the rest of the output is still read.
    child.on("exit", () => killGroup(child));
    child.on("close", (code, signal) => {
      if (code === 0) return settle(undefined);
      settle(
        new Fault(`the ${name} ${signal === null ? `exited with ${code}` : `died of ${signal}`}`),
      );
    });
    // A program that closes stdin early may still answer.
    child.stdin.on("error", () => undefined);
    child.stdin.end(request);
  });

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

const killGroup = ({ pid }: CommandProcess): void => {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // No process of the group is left.
  }
};
