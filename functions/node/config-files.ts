import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { fileFault } from "#kit/describe-error.ts";
import { ConfigError, type ConfigFault, GuardedFileError, variableFault } from "#kit/env.ts";
import { readCertificate } from "#proto/certificate-der.ts";
import { decodePemBundle } from "#proto/pem.ts";

/**
 * Returns the contents of a private key file. Throws an `Error` that quotes nothing if the file is not regular, or if group or world
 * may read, write or execute it. Checks the opened file (fstat), so that neither a symbolic link nor a swap between check and read
 * evades the check.
 */
export const readKeyFile = (path: string): Buffer =>
  readGuardedFile(path, {
    mask: 0o077,
    fault: "the key file is open to group or world; chmod it to 0600",
  });

/**
 * Returns the contents of a file whose author core trusts: authorities, issuers, people, a license, a secret. Throws as `readKeyFile`
 * does, if group or world may write it.
 */
export const readTrustedFile = (path: string): Buffer =>
  readGuardedFile(path, {
    mask: 0o022,
    fault: "the file is writable for group or world; chmod it to 0644",
  });

/** Returns a bundle of certificates. Throws for one without a certificate, which OpenSSL would accept, and then trust nobody. */
export const readCertificates = (path: string): Buffer => {
  const pem = readTrustedFile(path);
  const certificates = decodePemBundle(pem.toString("latin1"), "CERTIFICATE");
  if (certificates === undefined || certificates.length === 0)
    throw new Error("holds no certificate in PEM");
  certificates.forEach(readCertificate);
  return pem;
};

const readGuardedFile = (
  path: string,
  { mask, fault }: { mask: number; fault: string },
): Buffer => {
  // Without O_NONBLOCK, opening a FIFO blocks until a process writes to it.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) throw new GuardedFileError("the file is not a regular file");
    if ((status.mode & mask) !== 0) throw new GuardedFileError(fault);
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
};

/** Runs `load`. Rethrows its failure as a `ConfigError` of `variable` that quotes neither the value nor file contents. */
export const withConfigError = async <Result>(
  variable: string,
  load: () => Result | Promise<Result>,
): Promise<Result> => {
  try {
    return await load();
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw variableFault(variable, fileFault(cause));
  }
};

/** Runs every load, and returns their results by name. Throws one `ConfigError` with the faults of all; any other error ends it at once. */
export const loadTogether = async <Loads extends Readonly<Record<string, () => unknown>>>(
  loads: Loads,
): Promise<{ [Name in keyof Loads]: Awaited<ReturnType<Loads[Name]>> }> => {
  const loaded: [name: string, result: unknown][] = [];
  const faults = new Map<string, ConfigFault>();
  for (const [name, load] of Object.entries(loads)) {
    try {
      loaded.push([name, await load()]);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      for (const fault of error.faults)
        if (!faults.has(fault.variable)) faults.set(fault.variable, fault);
    }
  }
  if (faults.size > 0) throw new ConfigError([...faults.values()]);
  return Object.fromEntries(loaded) as { [Name in keyof Loads]: Awaited<ReturnType<Loads[Name]>> };
};
