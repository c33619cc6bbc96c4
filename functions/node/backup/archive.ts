/**
 * The file of a backup: a tar, compressed by zstd and encrypted by age (age-encryption.org/v1), which detects a change and a missing end. So
 * `age --decrypt -i KEY FILE | zstd --decompress | tar --extract` reads it without core.
 */
import { existsSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import { createZstdCompress, createZstdDecompress } from "node:zlib";
import { Decrypter, Encrypter } from "age-encryption";
import { extract, type Header, type Pack, pack } from "tar-stream";

/** A file of the archive; large ones are several. */
export interface ArchiveEntry {
  name: string;
  data: Uint8Array;
}

/** The file cannot be written or read as a backup; the message says what to do. */
export class BackupRefused extends Error {
  override readonly name = "BackupRefused";
}

/** Runs `write`, which creates `path`. Throws `BackupRefused` if it exists or cannot be created. */
export const refuseExisting = async <Result>(path: string, write: () => Promise<Result>): Promise<Result> => {
  try {
    return await write();
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    // Without the cause: its code would read as a database that is not there.
    throw new BackupRefused(
      code === "EEXIST" ? `${path} exists already: name another` : `${path} cannot be created: ${message}`,
    );
  }
};

const entryBytesMax = 64 * 1024 * 1024;
/** Those of a file alone, never of the connection to the database. */
const diskCodes = new Set(["EDQUOT", "EFBIG", "EIO", "ENOSPC", "EROFS"]);

/** Writes `file`, of mode 0600, which exists only once it is whole. Throws `BackupRefused` if that is not possible, or a recipient is none. */
export const writeArchive = async (
  file: string,
  recipients: readonly string[],
  entries: AsyncIterable<ArchiveEntry>,
): Promise<void> => {
  const encrypter = new Encrypter();
  for (const recipient of recipients) {
    try {
      encrypter.addRecipient(recipient);
    } catch {
      throw new BackupRefused(`${recipient} is no age recipient, such as svc-server backup --new-key prints`);
    }
  }
  if (existsSync(file)) throw new BackupRefused(`${file} exists already: name another`);
  const partial = `${file}.partial`;
  const handle = await open(partial, "wx", 0o600).catch(({ code, message }: NodeJS.ErrnoException) => {
    throw new BackupRefused(
      code === "EEXIST"
        ? `${partial} exists: another backup writes it, or one ended early; remove it then`
        : `${file} cannot be created: ${message}`,
    );
  });
  try {
    const archive = pack();
    const compressed = createZstdCompress();
    const encrypted = await encrypter.encrypt(Readable.toWeb(compressed) as ReadableStream<Uint8Array>);
    await Promise.all([
      fill(archive, entries),
      pipeline(archive, compressed),
      pipeline(Readable.fromWeb(encrypted as NodeReadableStream), handle.createWriteStream({ flush: true })),
    ]);
    await rename(partial, file);
  } catch (cause) {
    await handle.close().catch(() => undefined);
    await rm(partial, { force: true });
    const { code = "", message } = cause as NodeJS.ErrnoException;
    throw diskCodes.has(code) ? new BackupRefused(`${file} cannot be written: ${message}`) : cause;
  }
};

const fill = async (archive: Pack, entries: AsyncIterable<ArchiveEntry>): Promise<void> => {
  try {
    for await (const { name, data } of entries)
      await new Promise<void>((resolve, reject) => {
        const header = { name, mode: 0o600, mtime: new Date(0) };
        archive.entry(header, Buffer.from(data), (cause) => (cause ? reject(cause) : resolve()));
      });
    archive.finalize();
  } catch (cause) {
    archive.destroy(cause as Error);
    throw cause;
  }
};

/** Reads the entries of a backup in their order. Throws `BackupRefused` when no identity opens it, or it was changed or cut. */
export const readArchive = async function* (
  file: string,
  identities: readonly string[],
): AsyncGenerator<ArchiveEntry, void, void> {
  const decrypter = new Decrypter();
  for (const identity of identities) {
    try {
      decrypter.addIdentity(identity);
    } catch {
      throw new BackupRefused("the identity file has a line that is no age identity, as age-keygen writes it");
    }
  }
  const handle = await open(file).catch((cause: Error) => {
    // Without the cause: its code would read as a database that is not there.
    throw new BackupRefused(`${file} cannot be read: ${cause.message}`);
  });
  const source = handle.createReadStream();
  try {
    const decrypted = await decrypter.decrypt(Readable.toWeb(source) as ReadableStream<Uint8Array>);
    const archive = extract();
    const reading = pipeline(Readable.fromWeb(decrypted as NodeReadableStream), createZstdDecompress(), archive);
    // Its fault is that of the iteration too.
    reading.catch(() => undefined);
    for await (const entry of archive) {
      const { name, size = 0 } = entry.header as Header;
      if (size > entryBytesMax) throw new BackupRefused(`${file}: ${name} is larger than a part of a backup`);
      yield { name, data: Buffer.concat(await Array.fromAsync(entry as AsyncIterable<Buffer>)) };
    }
    await reading;
  } catch (cause) {
    if (cause instanceof BackupRefused) throw cause;
    if (/identit/.test(String(cause))) throw new BackupRefused(`${file}: no identity opens it`, { cause });
    throw new BackupRefused(`${file} is no backup, or was changed or cut: ${(cause as Error).message}`, { cause });
  } finally {
    source.destroy();
  }
};
