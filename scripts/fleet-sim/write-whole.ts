import { open, rename, rm } from "node:fs/promises";
import { CommandFailure, exitCode } from "../../collector/commands/command-failure.ts";
import type { Entropy } from "../../functions/kit/entropy.ts";

/** Writes a file so that whoever reads it sees the old text or all of the new, also after a crash. Throws `CommandFailure`. */
export const writeWhole = async (path: string, text: string, entropy: Entropy): Promise<void> => {
  const temporary = `${path}.${entropy.bytes(6).toHex()}.tmp`;
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
    throw new CommandFailure(exitCode.failed, "file_unwritable", "the file of --out cannot be written", { cause });
  }
};
