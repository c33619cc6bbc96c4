/*
 * Finds where rotation moved a file: under other names in its directory, also copied or compressed. A file is recognised by its inode, and
 * otherwise by its first bytes.
 */
import { randomUUID } from "node:crypto";
import type { EventEmitter } from "node:events";
import { constants as fileConstants } from "node:fs";
import { type FileHandle, open, readdir, realpath, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, extname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import { isDiskUnwritable } from "../../queue/errors.ts";
import type { FileRules } from "../source.ts";
import type { OpenFile } from "./discovery.ts";
import { ForbiddenFileError, openAllowedFile } from "./file-rules.ts";
import { readAt } from "./lines.ts";
import { continues, fileKey, isHeadOf, type Position } from "./position.ts";

/** The bytes to which a compressed file is read; more are counted as lost. */
const unpackedBytesMax = 512 * 1024 * 1024;

/** Whether rotation may have given `name` to a file that was called `base`: `app.log.1`, `app.log-20260102.gz`, `app-20260102.log`. */
export const isRotatedName = (name: string, base: string): boolean => {
  if (name === base) return false;
  if (name.startsWith(base)) return /^[.\-_]/.test(name.slice(base.length));
  const extension = extname(base);
  const stem = base.slice(0, base.length - extension.length);
  return (
    extension !== "" &&
    name.startsWith(stem) &&
    /^[.\-_]/.test(name.slice(stem.length)) &&
    name.includes(extension, stem.length)
  );
};

/** Whether a file was made after `than`, by its birth where neither was compressed, and by its last change. */
export const isNewer = (file: Aged, than: Aged): boolean =>
  file.mtimeMs >= than.mtimeMs &&
  (file.isPacked || than.isPacked || file.birthtimeMs >= than.birthtimeMs);

/** When a file was made and changed. */
export interface Aged {
  readonly mtimeMs: number;
  readonly birthtimeMs: number;
  readonly isPacked: boolean;
}

/**
 * Opens the files where rotation moves that of `position` and for which `isWanted` is true; of the compressed ones only those that start like
 * `startsLike`. The caller closes each.
 */
export const openRotated = async function* (
  position: Position,
  isWanted: (key: string, age: Aged) => boolean,
  rules: FileRules,
  startsLike?: Position,
): AsyncGenerator<OpenFile & { age: Aged }> {
  const path = await rotatedPath(position);
  for (const name of (await readdir(dirname(path)).catch(() => [])).sort()) {
    if (!isRotatedName(name, basename(path))) continue;
    const candidate = join(dirname(path), name);
    const found = await stat(candidate).catch(() => null);
    if (found === null || !found.isFile()) continue;
    const age = {
      mtimeMs: found.mtimeMs,
      birthtimeMs: found.birthtimeMs,
      isPacked: isPacked(name),
    };
    if (!isWanted(fileKey(found), age)) continue;
    const opened = await openContent(candidate, rules, startsLike);
    if (opened !== null) yield { ...opened, age };
  }
};

/**
 * Opens a file; a compressed one as its content. Null if it is gone, may not be read, is not what its name says, or is compressed and does not
 * start like `startsLike`. Throws while there is no room for its content.
 */
export const openContent = async (
  path: string,
  rules: FileRules,
  startsLike?: Position,
): Promise<OpenFile | null> => {
  const opened = await openAllowedFile(path, rules).catch((error: unknown) => {
    if (error instanceof ForbiddenFileError) return null;
    throw error;
  });
  if (opened === null || !isPacked(path)) return opened;
  try {
    if (startsLike === undefined || (await hasPackedHead(opened.file, startsLike))) {
      const file = await unpack(opened.file);
      // Open as long as its content is: otherwise a new file could get its inode, and be taken for it.
      (file as FileHandle & EventEmitter).once("close", () => void opened.file.close());
      return {
        ...opened,
        file,
        stat: Object.assign(opened.stat, { size: (await file.stat()).size }),
      };
    }
  } catch (error) {
    if (isDiskUnwritable(error)) {
      await opened.file.close();
      throw error;
    }
    // It is not what its name says.
  }
  await opened.file.close();
  return null;
};

const isPacked = (name: string): boolean => name.endsWith(".gz");

/** Whether the content of a compressed file starts like a position's: without unpacking it all. */
const hasPackedHead = async (packed: FileHandle, position: Position): Promise<boolean> => {
  const start = await readAt(packed, 0, Buffer.allocUnsafe(8192));
  return isHeadOf(gunzipSync(start, { finishFlush: constants.Z_SYNC_FLUSH }), position);
};

/** Returns the content of a compressed file, as a file without a name. Throws if it is not gzip, or too large. */
const unpack = async (packed: FileHandle): Promise<FileHandle> => {
  const path = join(tmpdir(), `svc-collector-${randomUUID()}`);
  const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = fileConstants;
  const file = await open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    await rm(path);
    let bytes = 0;
    const source = packed.createReadStream({ autoClose: false, start: 0 });
    await pipeline(source, createGunzip(), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        if (bytes > unpackedBytesMax) throw new RangeError("a compressed file is too large");
        // Unlike `write`, it fails when there is room for a part alone.
        await file.appendFile(chunk);
      }
    });
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
};

/** Returns the open file other than those in `known` that continues `position`; null if there is none. */
export const findContinuation = async (
  position: Position,
  known: (key: string) => boolean,
  rules: FileRules,
): Promise<(OpenFile & { age: Aged }) | null> => {
  if (position.head.bytes === 0) return null;
  for await (const opened of openRotated(position, (key) => !known(key), rules, position)) {
    if (await continues(opened, position)) return opened;
    await opened.file.close();
  }
  return null;
};

/** Returns the path beside which rotation moves a file: that behind a symbolic link. */
const rotatedPath = async ({ path, directory = dirname(path) }: Position): Promise<string> => {
  const real = await realpath(path).catch(() => path);
  return dirname(real) === directory ? real : join(directory, basename(path));
};
