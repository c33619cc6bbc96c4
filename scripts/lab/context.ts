import { type Clock, systemClock } from "#kit/clock.ts";
import { type Entropy, systemEntropy } from "#kit/entropy.ts";
import { openTemporaryFolder } from "../temporary-folder.ts";

/** The dependencies that a command passes to every part that it starts. */
export interface LabContext {
  /** A temporary directory, private to the command. */
  dir: string;
  clock: Clock;
  entropy: Entropy;
  /** Aborts when the command is interrupted or has failed. */
  signal: AbortSignal;
  abort(reason: Error): void;
  /** Writes one line for people to stderr. */
  progress(line: string): void;
}

/** The command was interrupted by a signal. */
export class Interrupted extends Error {}

/**
 * Runs `task` with a context; disposes `cleanup` and removes the directory, unless `keep`, before it settles. Rejects with the reason
 * of an abort, if there was one.
 */
export const withLab = async <Result>(
  { name, keep = false }: { name: string; keep?: boolean | undefined },
  task: (context: LabContext, cleanup: AsyncDisposableStack) => Promise<Result>,
): Promise<Result> => {
  const startedAt = performance.now();
  const progress = (line: string) =>
    console.error(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${line}`);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => {
      if (!stop.signal.aborted) progress("stopping");
      stop.abort(new Interrupted(`stopped by ${signal}`));
    });
  const { path: dir, remove } = await openTemporaryFolder(name);
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(async () => {
    if (keep) progress(`kept: ${dir}`);
    else await remove();
  });
  const context: LabContext = {
    dir,
    clock: systemClock,
    entropy: systemEntropy,
    progress,
    signal: stop.signal,
    abort: (reason) => stop.abort(reason),
  };
  try {
    const result = await task(context, cleanup);
    stop.signal.throwIfAborted();
    return result;
  } catch (error) {
    throw stop.signal.aborted ? stop.signal.reason : error;
  }
};

/** Runs `task` as `withLab` does and prints its report as one JSON object. Exit code 1 unless the report is `ok`. */
export const reportFromLab = async (
  options: { name: string; keep?: boolean | undefined },
  task: (context: LabContext, cleanup: AsyncDisposableStack) => Promise<{ ok: boolean }>,
): Promise<void> => {
  const report = await withLab(options, task).catch((error: unknown) => {
    console.error(errorMessages(error));
    return { ok: false, error: errorMessages(error) };
  });
  console.log(JSON.stringify(report));
  process.exitCode = report.ok ? 0 : 1;
};

/** The messages of an error and of its causes. */
export const errorMessages = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined
    ? error.message
    : `${error.message}: ${errorMessages(error.cause)}`;
};
