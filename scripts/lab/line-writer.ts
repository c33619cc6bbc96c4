import { appendFile, copyFile, mkdir, rename, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** An application that logs to a file, with the rotation of that file. */
export interface LineWriter {
  /** The file that is being written. */
  readonly file: string;
  /** Pattern of that file and of the renamed ones. */
  readonly include: string;
  /** Appends one line for each id. */
  append(ids: readonly string[]): Promise<void>;
  /** Renames the file and creates a new one, as logrotate does by default. */
  rotateByRename(): Promise<void>;
  /** Copies and truncates the file, as logrotate's `copytruncate` does. Lines that no reader has read by then are lost. */
  rotateByCopy(): Promise<void>;
}

const padding = "x".repeat(120);
const pattern = / id=(\S+) /;

/** Returns the id that a line was written for. */
export const idOfLine = (line: string): string | undefined => pattern.exec(line)?.[1];

/** Creates a writer of `<dir>/app.log`. Keeps the newest `renamedMax` renamed files beside it; copies go to a directory of their own. */
export const createLineWriter = async (
  dir: string,
  renamedMax = Number.POSITIVE_INFINITY,
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
      appendFile(
        file,
        ids.map((id) => `${new Date().toISOString()} info id=${id} ${padding}\n`).join(""),
      ),
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
