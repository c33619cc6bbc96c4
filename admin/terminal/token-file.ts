import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { sha256 } from "#kit/bytes.ts";
import { strictUtf8 } from "#kit/utf8.ts";
import { usageError } from "./exit-codes.ts";

/**
 * Replaces a file by a new one that only the person may read: nothing is written through a link, or to a file that somebody else has open.
 * Throws where it cannot.
 */
export const writeTokenFile = (path: string, content: string): void => {
  const temporary = `${path}.${process.pid}`;
  try {
    rmSync(temporary, { force: true });
    writeFileSync(temporary, content, { mode: 0o600, flag: "wx" });
    renameSync(temporary, path);
  } catch (cause) {
    throw usageError(`${path} cannot be written`, { cause });
  }
};

/** Reads a file that core receives as text. Throws a `TypeError` for bytes that are not UTF-8, which would become other text. */
export const readUtf8 = (file: string | number): string => strictUtf8.decode(readFileSync(file));

/** Reads a token, or another text of an option. Throws where the file cannot be read. */
export const readTextFile = (path: string): string => read(path, path).trim();

/** Reads the file of an argument; `-` is stdin. Throws where it cannot be read. */
export const readInput = (path: string): string => read(path === "-" ? 0 : path, path);

const read = (file: string | number, path: string) => {
  try {
    return readUtf8(file);
  } catch (cause) {
    const fault = cause instanceof TypeError ? "is not UTF-8 text" : "cannot be read";
    throw usageError(`${path} ${fault}`, { cause });
  }
};

/** Returns the hexadecimal SHA-256 by which core knows a token, so that the token itself stays on this machine. */
export const tokenDigest = async (token: string): Promise<string> => (await sha256(token)).toHex();
