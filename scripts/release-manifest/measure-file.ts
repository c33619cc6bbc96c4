/*
 * Reads a file of a release. Invariants:
 * - No part of the path is a symbolic link, before and after: the real path is the path.
 * - The bytes are those of one unchanged file: inode, size and times are the same before and after, and the path still names it.
 * - A change within one tick of the file system's clock would not show in the times, so a file younger than that is left to age first.
 */

import { createHash } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { constants } from "node:fs";
import * as nodeFiles from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { errorCode } from "#kit/describe-error.ts";
import { ReleaseFailure } from "./release-failure.ts";

/** The file system operations that measure a file. */
export type MeasuredFiles = Pick<typeof nodeFiles, "lstat" | "open" | "realpath">;

/** The size and SHA-256 digest of a file. */
export interface FileMeasure {
  size_bytes: number;
  sha256: string;
}

/** How long a change can leave the times of a file as they are. */
const clockTickMs = 100;
const chunkBytes = 1 << 20;

/**
 * Hashes the regular file `path` below `root`. Throws `ReleaseFailure` (1) if it is missing, not a regular file, behind a symbolic link,
 * or changes meanwhile. `path` must have no `pathFault`.
 */
export const measureFile = async (
  root: string,
  path: string,
  files: MeasuredFiles = nodeFiles,
): Promise<FileMeasure> => {
  const refuse = (fault: string) => new ReleaseFailure("failed", `${path} ${fault}`);
  const fullPath = join(await files.realpath(root), path);
  const checkNoLink = async () => {
    if ((await files.realpath(fullPath)) !== fullPath)
      throw refuse("is a symbolic link, or behind one");
  };
  try {
    await checkNoLink();
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
    const handle = await files.open(fullPath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const before = await settledStatus(handle);
      if (!before.isFile()) throw refuse("is not a regular file");
      const { bytes, sha256 } = await hashOf(handle, before.size);
      const after = await handle.stat({ bigint: true });
      await checkNoLink();
      const named = await files.lstat(fullPath, { bigint: true });
      if (bytes !== before.size || !isSame(before, after) || !isSame(before, named))
        throw refuse("changed while it was hashed");
      return { size_bytes: Number(bytes), sha256 };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof ReleaseFailure) throw error;
    const code = errorCode(error);
    if (code === "ELOOP") throw refuse("is a symbolic link, or behind one");
    throw refuse(
      code === "ENOENT" || code === "ENOTDIR"
        ? "is missing"
        : `cannot be read (${code ?? "no code"})`,
    );
  }
};

const isSame = (a: BigIntStats, b: BigIntStats): boolean =>
  (["dev", "ino", "size", "mtimeNs", "ctimeNs"] as const).every((field) => a[field] === b[field]);

const settledStatus = async (handle: nodeFiles.FileHandle): Promise<BigIntStats> => {
  const status = await handle.stat({ bigint: true });
  const ageMs = Date.now() - Number(status.ctimeMs);
  if (ageMs < 0 || ageMs >= clockTickMs) return status;
  await sleep(clockTickMs - ageMs);
  return handle.stat({ bigint: true });
};

/** Reads to the end, or past `size`, which a file that grows forever also reaches. */
const hashOf = async (
  handle: nodeFiles.FileHandle,
  size: bigint,
): Promise<{ bytes: bigint; sha256: string }> => {
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(chunkBytes);
  let bytes = 0n;
  while (bytes <= size) {
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, null);
    if (bytesRead === 0) break;
    hash.update(chunk.subarray(0, bytesRead));
    bytes += BigInt(bytesRead);
  }
  return { bytes, sha256: hash.digest("hex") };
};
