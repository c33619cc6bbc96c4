import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { queueFiles, syncDirectory } from "./files.ts";

const folder = /^quarantine-(\d+)$/;
/** Older ones are removed: a disk that turns bits over must not be filled by what it broke. */
const keptMax = 2;

/** How many queues of this directory were put aside, ever. */
export const countQuarantined = (dir: string): number => Math.max(0, ...quarantined(dir));

/**
 * Puts a damaged queue aside, whole, into `quarantine-<n>` beside it, so that a new one can begin and people can look at the old one.
 * The newest two are kept. Gives the folder.
 */
export const quarantine = (dir: string): string => {
  const numbers = quarantined(dir);
  const target = join(dir, `quarantine-${Math.max(0, ...numbers) + 1}`);
  mkdirSync(target, { mode: 0o700 });
  const { database } = queueFiles(dir);
  for (const [name, path] of Object.entries({
    "queue.db-shm": `${database}-shm`,
    "queue.db-wal": `${database}-wal`,
    "queue.db": database,
  }))
    if (existsSync(path)) renameSync(path, join(target, name));
  for (const old of numbers.toSorted((a, b) => b - a).slice(keptMax - 1))
    rmSync(join(dir, `quarantine-${old}`), { recursive: true });
  syncDirectory(dir);
  return target;
};

const quarantined = (dir: string): number[] =>
  readdirSync(dir).flatMap((name) => {
    const number = folder.exec(name)?.[1];
    return number === undefined ? [] : [Number(number)];
  });
