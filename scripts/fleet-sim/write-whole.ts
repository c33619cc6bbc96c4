import { open, rename, rm, stat } from "node:fs/promises";
import { CommandFailure, exitCode } from "../../collector/commands/command-failure.ts";
import type { Entropy } from "../../kit/entropy.ts";

/** Writes a file so that whoever reads it sees the old text or all of the new, also after a crash. Throws `CommandFailure`. */
export const writeWhole = async (path: string, text: string, entropy: Entropy): Promise<void> => {
  const temporary = besideOf(path, entropy);
  try {
    const file = await open(temporary, "wx");
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (cause) {
    await rm(temporary, { force: true });
    throw unwritable(cause);
  }
};

/** Throws `CommandFailure` where `writeWhole` could not write now; what is at `path` stays as it is. */
export const checkWritable = async (path: string, entropy: Entropy): Promise<void> => {
  const temporary = besideOf(path, entropy);
  try {
    if ((await stat(path).catch(() => undefined))?.isDirectory()) throw new Error("a directory is there");
    await (await open(temporary, "wx")).close();
  } catch (cause) {
    throw unwritable(cause);
  } finally {
    await rm(temporary, { force: true });
  }
};

const besideOf = (path: string, entropy: Entropy): string => `${path}.${entropy.bytes(6).toHex()}.tmp`;

const unwritable = (cause: unknown): CommandFailure =>
  new CommandFailure(exitCode.failed, "file_unwritable", "the file of --out cannot be written", { cause });
