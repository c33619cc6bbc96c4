import { spawn } from "node:child_process";
import { errorCode } from "#kit/describe-error.ts";

/** One run of `journalctl`. */
interface JournalctlRun {
  readonly program: string;
  readonly args: readonly string[];
  /** Takes the next bytes of its output; it waits until this resolves. */
  onOutput(chunk: Buffer): void | Promise<void>;
  readonly signal: AbortSignal;
}

/** Faults that it names on stderr, and after which it may read on, with a part of the journal or nothing. */
const faults = [
  {
    text: /insufficient permissions|not seeing messages|Permission denied/,
    reason:
      "this user may not read the journal; add it to the group systemd-journal or adm, and restart the collector",
  },
  { text: /No journal files were found/, reason: "this host has no journal files" },
] as const;

const faultIn = (stderr: string) => faults.find(({ text }) => text.test(stderr));

const stderrCharactersMax = 1_000;

/**
 * Runs `journalctl` until it ends. Rejects if it ends with another code than 0, cannot read the journal, or `onOutput` rejects, and when
 * `signal` aborts; it does not run any more then.
 */
export const runJournalctl = async ({
  program,
  args,
  onOutput,
  signal,
}: JournalctlRun): Promise<void> => {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const kill = () => void child.kill("SIGKILL");
  const ended = new Promise<Error | number | string | null>((resolve) => {
    child.once("error", resolve);
    child.once("close", (code, killedBy) => resolve(code ?? killedBy));
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-stderrCharactersMax);
    if (faultIn(stderr)) kill();
  });
  signal.addEventListener("abort", kill);
  let failure: unknown;
  try {
    signal.throwIfAborted();
    for await (const chunk of child.stdout) await onOutput(chunk);
  } catch (error) {
    failure = error;
    kill();
  }
  const end = await ended;
  signal.removeEventListener("abort", kill);
  signal.throwIfAborted();
  if (end instanceof Error || faultIn(stderr)) throw new Error(describeEnd(end, stderr));
  if (failure !== undefined) throw failure;
  if (end !== 0) throw new Error(describeEnd(end, stderr));
};

const describeEnd = (end: Error | number | string | null, stderr: string): string => {
  if (end instanceof Error)
    return errorCode(end) === "ENOENT"
      ? "journalctl is not installed on this host"
      : `journalctl cannot be started: ${end.message}`;
  const last = stderr.trim().split("\n").at(-1);
  return faultIn(stderr)?.reason ?? `journalctl ended with ${end}${last ? `: ${last}` : ""}`;
};
