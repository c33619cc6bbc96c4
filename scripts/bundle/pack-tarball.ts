import { readFile, writeFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { pack } from "tar-stream";
import { compareText } from "../release-manifest/release-path.ts";

/** A file of a tarball: its name there, and its content or the file that has it. */
export type PackedFile = { name: string; executable?: boolean } & (
  | { from: string }
  | { text: string }
);

/** Writes a gzip-compressed tarball of `packFiles`. */
export const packTarball = async (
  output: string,
  files: readonly PackedFile[],
  timestamp: Date,
  level: number = constants.Z_BEST_COMPRESSION,
): Promise<void> => {
  await writeFile(output, await promisify(gzip)(await packFiles(files, timestamp), { level }));
};

/**
 * Returns a tar archive. The same names and contents give the same bytes: files are sorted, belong to root, have mode 0644 or 0755, and
 * `timestamp` as their time.
 */
export const packFiles = async (files: readonly PackedFile[], timestamp: Date): Promise<Buffer> => {
  const archive = pack();
  const collected = buffer(archive);
  for (const file of files.toSorted((a, b) => compareText(a.name, b.name))) {
    const content = "from" in file ? await readFile(file.from) : Buffer.from(file.text);
    const owner = { uid: 0, gid: 0, uname: "root", gname: "root" };
    archive.entry(
      { name: file.name, mode: file.executable ? 0o755 : 0o644, mtime: timestamp, ...owner },
      content,
    );
  }
  archive.finalize();
  return collected;
};
