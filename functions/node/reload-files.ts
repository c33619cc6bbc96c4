/**
 * Values made from files that change while core runs: certificates, keys, bundles. Invariants: `current` is always made from files
 * that were valid together; an invalid change keeps the current value, is logged once, is reported by `fault`, and is retried at every check,
 * because the matching file may follow; loads of one value never overlap.
 */
import { statSync } from "node:fs";
import type { Clock } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { ConfigError } from "#kit/env.ts";
import type { Log } from "#kit/log.ts";
import { runEvery } from "#kit/run-every.ts";

/** Files that are checked for changes from time to time. */
export interface ReloadedFiles {
  /** As `ReloadOptions` has it. */
  name: string;
  /** Checks the files and reloads the value if one has changed. Never throws. */
  check(): Promise<void>;
  /** Returns the fault of the files on disk, for an operator, while the value of older ones is in use; undefined without one. */
  fault(): string | undefined;
}

/** A value made from files. */
export interface Reloaded<Value> extends ReloadedFiles {
  current(): Value;
  /** Calls `apply` with every later value, before it is `current`; a throw rejects the value. */
  subscribe(apply: (value: Value) => void): void;
}

/** The files of a value, and how to load it. */
export interface ReloadOptions<Value> {
  /** Names the files in the log. */
  name: string;
  paths: readonly string[] | (() => readonly string[]);
  /** Reports whether a check loads the value again although no file has changed. */
  isSuspect?: () => boolean;
  /** The value while the first load fails; without it, `loadFiles` throws. */
  initial?: Value;
  /** Throws if the files are invalid, with a message for an operator that quotes nothing. */
  load(): Promise<Value>;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** Loads the value for the first time; throws what `load` throws, unless there is an initial value. */
export const loadFiles = async <Value>({
  name,
  paths,
  isSuspect = () => false,
  initial,
  load,
  log,
}: ReloadOptions<Value>): Promise<Reloaded<Value>> => {
  // Taken before the load, so that the next check notices a change during it.
  let stamp = stampOf(paths);
  let fault: string | undefined;
  let value = await load().catch((err: unknown) => {
    if (initial === undefined) throw err;
    fault = describe(err);
    log.warn({ files: name, err }, "files cannot be used");
    return initial;
  });
  /** Since the value was loaded. */
  let isChanged = false;
  let checking = Promise.resolve();
  const subscribers: ((value: Value) => void)[] = [];

  const reload = async () => {
    const found = stampOf(paths);
    isChanged ||= found !== stamp;
    if (!isChanged && fault === undefined && !isSuspect()) return;
    stamp = found;
    try {
      const next = await load();
      for (const apply of subscribers) apply(next);
      value = next;
      fault = undefined;
      log.info(
        { files: name },
        isChanged ? "files have changed and are in use" : "the unchanged value is accepted again",
      );
      isChanged = false;
    } catch (err) {
      const message = describe(err);
      if (message !== fault)
        log.warn(
          { files: name, err },
          isChanged
            ? "files have changed and cannot be used; the old ones are kept"
            : "the unchanged value is no longer accepted",
        );
      fault = message;
    }
  };
  return {
    name,
    current: () => value,
    fault: () => fault,
    subscribe: (apply) => void subscribers.push(apply),
    check: () => {
      checking = checking.then(reload);
      return checking;
    },
  };
};

/** Changes with any file, its mode (also within one tick of the file system's clock), the link that leads to it, and why it cannot be read. */
const stampOf = (paths: ReloadOptions<unknown>["paths"]) =>
  (typeof paths === "function" ? paths() : paths)
    .map((path) => {
      try {
        const { dev, ino, mode, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
        return [dev, ino, mode, size, mtimeNs, ctimeNs].join(":");
      } catch (error) {
        return errorCode(error);
      }
    })
    .join(" ");

const describe = (error: unknown) => {
  if (error instanceof ConfigError)
    return error.faults.map((one) => `${one.variable}: ${one.message}`).join("; ");
  return error instanceof Error ? error.message : "they cannot be loaded";
};

const filesIntervalMs = 5000;

/** Checks files one after another; see `ReloadedFiles`. */
export const checkEach = async (followed: readonly Pick<ReloadedFiles, "check">[]) => {
  for (const files of followed) await files.check();
};

/** Reloads changed files within seconds, and at once on SIGHUP, until the signal aborts. */
export const reloadChangedFiles = async (
  { clock, log }: { clock: Clock; log: Log },
  followed: readonly Pick<ReloadedFiles, "check">[],
  signal: AbortSignal,
): Promise<void> => {
  const checkNow = () => void checkEach(followed);
  process.on("SIGHUP", checkNow);
  await runEvery(
    { name: "changed files", intervalMs: filesIntervalMs, clock, signal, log },
    async () => {
      await checkEach(followed);
      return undefined;
    },
  );
  process.off("SIGHUP", checkNow);
};
