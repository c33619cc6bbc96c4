/**
 * Values made from files that change while core runs: certificates, keys, bundles. Invariants: `current` is always made from files
 * that were good together; a change that is no good leaves it as it was, is logged once, shows as `fault`, and is tried again at
 * every check, since the other half of a pair may follow; no two loads of one value overlap.
 */
import { statSync } from "node:fs";
import { ConfigError } from "../../kit/env.ts";

/** Files that are looked at from time to time. */
export interface ReloadedFiles {
  /** Looks at the files and makes the value anew if one has changed. Never throws. */
  check(): Promise<void>;
  /** What is wrong with the files as they are now, while older ones serve; for an operator. */
  fault(): string | undefined;
}

/** A value made from files. */
export interface Reloaded<Value> extends ReloadedFiles {
  current(): Value;
  /** Calls back with every value after this one. */
  subscribe(apply: (value: Value) => void): void;
}

/** What a value is made of, and how. */
export interface ReloadOptions<Value> {
  /** For the log: what the files are. */
  name: string;
  paths: readonly string[];
  /** Throws when the files are no good; the message is for an operator and holds nothing of their contents. */
  load(): Promise<Value>;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** Makes the value for the first time; throws what `load` throws. */
export const loadFiles = async <Value>({ name, paths, load, log }: ReloadOptions<Value>): Promise<Reloaded<Value>> => {
  // Taken before the load: what changes in between is seen as a change by the next check.
  let stamp = stampOf(paths);
  let value = await load();
  let fault: string | undefined;
  let checking = Promise.resolve();
  const subscribers: ((value: Value) => void)[] = [];

  const look = async (): Promise<void> => {
    const found = stampOf(paths);
    if (found === stamp && fault === undefined) return;
    stamp = found;
    try {
      value = await load();
      for (const apply of subscribers) apply(value);
      fault = undefined;
      log.info({ files: name }, "files have changed and are in use");
    } catch (err) {
      const told = describe(err);
      if (told !== fault)
        log.warn({ files: name, err }, "files have changed and cannot be used; the old ones are kept");
      fault = told;
    }
  };
  return {
    current: () => value,
    fault: () => fault,
    subscribe: (apply) => void subscribers.push(apply),
    check: () => {
      checking = checking.then(look);
      return checking;
    },
  };
};

/** Differs after any change of a file, of its mode (also within one tick of the file system's clock), or of the link that leads to it. */
const stampOf = (paths: readonly string[]): string =>
  paths
    .map((path) => {
      const status = statSync(path, { bigint: true, throwIfNoEntry: false });
      return status && [status.dev, status.ino, status.mode, status.size, status.mtimeNs, status.ctimeNs].join(":");
    })
    .join(" ");

const describe = (error: unknown): string => {
  if (error instanceof ConfigError) return error.faults.map((one) => `${one.variable}: ${one.message}`).join("; ");
  return error instanceof Error ? error.message : "they cannot be loaded";
};
