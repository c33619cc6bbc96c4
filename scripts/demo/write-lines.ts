import { appendFile, copyFile, mkdir, rename, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** An application that logs to a file, and the rotation of that file. */
export interface LineWriter {
  /** The file that is written to now. */
  readonly file: string;
  /** Pattern of that file and of those that were renamed. */
  readonly include: string;
  /** Appends one line for each id. */
  append(ids: readonly string[]): Promise<void>;
  /** What logrotate does by default: the file is renamed, a new one takes its name. */
  rotateByRename(): Promise<void>;
  /** logrotate's `copytruncate`: the file is copied away and emptied. What nobody has read by then is lost to every reader. */
  rotateByCopy(): Promise<void>;
}

const padding = "x".repeat(120);
const pattern = / id=(\S+) /;

/** The id that a line was written for. */
export const idOfLine = (line: string): string | undefined => pattern.exec(line)?.[1];

/**
 * Writes `app.log` in `dir`; renamed ones lie beside it, the newest `renamedMax` of them, copies in a directory of their own, where no
 * reader looks.
 */
export const createLineWriter = async (
  dir: string,
  renamedMax: number = Number.POSITIVE_INFINITY,
): Promise<LineWriter> => {
  const file = join(dir, "app.log");
  const copies = join(dir, "copies");
  await mkdir(copies, { recursive: true });
  await writeFile(file, "");
  let rotations = 0;
  return {
    file,
    include: `${file}*`,
    append: (ids) =>
      appendFile(file, ids.map((id) => `${new Date().toISOString()} info id=${id} ${padding}\n`).join("")),
    rotateByRename: async () => {
      rotations++;
      await rename(file, `${file}.${rotations}`);
      if (rotations > renamedMax) await rm(`${file}.${rotations - renamedMax}`, { force: true });
      await writeFile(file, "");
    },
    rotateByCopy: async () => {
      rotations++;
      await copyFile(file, join(copies, `app.log.${rotations}`));
      await truncate(file);
    },
  };
};
