/*
 * The identity directory: `current` → `pairs/<fingerprint>`, a directory with `tls.crt`, `tls.key` and `renew-after`; `previous` → the
 * previous credentials, while the current ones are pending promotion; and `request` with the key of a certificate that was requested
 * and not yet received.
 *
 * Invariants:
 * - `current` points at complete credentials whose parts belong together, or does not exist: it changes by one rename, and only to
 *   credentials that `joinCredentials` accepted and that are fsynced.
 * - A key is on disk before its request is sent, and stays under `request` until its credentials are in use: after a lost answer the
 *   collector repeats the request with the same key, and core returns the same certificate.
 * - The target of `current` is never removed, nor that of `previous` before `promote`.
 * - `previous` names the credentials that requested the current ones, so core accepts them for as long as it rejects the current.
 * All changes are made under the directory's lock.
 */
import { basename, dirname, join } from "node:path";
import type { CollectorConfig } from "#proto/collector-config/parse.ts";
import { parseTimestamp } from "#proto/values.ts";
import { acquireFileLock } from "../files/lock.ts";
import {
  type FileAccess,
  fsyncDirectory,
  linkTarget,
  makeOwnDirectory,
  makePrivateDirectory,
  readPrivateText,
  switchLink,
  systemFiles,
  writeDurably,
} from "../files/private-files.ts";
import { type Credentials, joinCredentials } from "./credentials.ts";

/** Another process is changing the same identity directory. */
export class IdentityLockedError extends Error {
  override readonly name = "IdentityLockedError";
}

/** The subject of a certificate request. A repeated request for the same subject has the same key. */
interface RequestSubject {
  purpose: "enroll" | "renew";
  identity: string;
  /** Fingerprint of the certificate that is renewed; empty for an enrollment. */
  certificateSha256: string;
}

/** A key on disk and the request made from it. */
interface CertificateRequest {
  readonly csrPem: string;
  readonly keyPem: string;
}

/** Names of the files of credentials, relative to the directory that `current` points at. */
export const credentialFiles = { certificate: "tls.crt", key: "tls.key" } as const;
const renewAfterFile = "renew-after";

/** A certificate for the prepared key, to install. */
interface Installation {
  /** `renew` keeps the replaced credentials, which are of the same identity, as `previous`. */
  purpose: RequestSubject["purpose"];
  certificatePem: string;
  /** Core's `renew_after`, RFC 3339. */
  renewAfter: string;
  /** Rejects if the credentials cannot stay in use: `install` then restores the previous ones. */
  accept?: (credentials: Credentials) => Promise<void>;
}

/** One identity directory. Call its changing members only inside `locked`. */
export interface IdentityDirectory {
  readonly path: string;
  /** Runs `action` while no other process may change this directory; throws `IdentityLockedError` if one is doing so. */
  locked<Result>(action: () => Promise<Result>): Promise<Result>;
  /** Returns the credentials in use, if any. Throws `CredentialsError` or `UnsafeFileError` if they are damaged. */
  current(): Promise<Credentials | undefined>;
  /** Returns when to renew the credentials in use, milliseconds since the epoch; undefined if that is not known. */
  renewAfter(): Promise<number | undefined>;
  /** Returns the request for `subject`: with the key on disk if that is for the same subject, else with a new, durable one. */
  prepare(subject: RequestSubject): Promise<CertificateRequest>;
  /**
   * Puts the prepared key and its certificate in use, in one step. Throws `CredentialsError` and changes nothing if the certificate is
   * unusable or is not for the prepared key. After any other failure `current` points at the previous credentials or at the complete new
   * ones, and the same request may be repeated.
   */
  install(installation: Installation): Promise<Credentials>;
  /** Reports whether core has not yet accepted the credentials in use, so that the previous ones are kept. */
  isPendingPromotion(): Promise<boolean>;
  /** Removes the previous credentials. Call it once core has accepted the ones in use. */
  promote(): Promise<void>;
  /** Restores the previous credentials. Returns false if there are none, or if they are damaged or expired. */
  rollBack(nowMs: number): Promise<boolean>;
}

/** Opens the identity directory `path`, which `locked` creates 0700; files in it are 0600. */
export const openIdentityDirectory = (path: string, disk: FileAccess): IdentityDirectory => {
  const { files = systemFiles } = disk;
  const currentLink = join(path, "current");
  const previousLink = join(path, "previous");
  const pairs = join(path, "pairs");
  const request = join(path, "request");
  const requestFiles = {
    subject: join(request, "subject.json"),
    key: join(request, credentialFiles.key),
  };

  const readCredentials = async (directory: string): Promise<Credentials> => {
    const certificatePem = await files.readFile(
      join(directory, credentialFiles.certificate),
      "utf8",
    );
    return joinCredentials(
      certificatePem,
      await readPrivateText(join(directory, credentialFiles.key), files),
    );
  };
  /** Returns the target of `previous`; undefined also between the two steps of a swap or rollback, when both links have the same target. */
  const previousTarget = async (): Promise<string | undefined> => {
    const previous = await linkTarget(previousLink, files);
    return previous === (await linkTarget(currentLink, files)) ? undefined : previous;
  };
  /** Removes all other credentials, and the temporary links of a process that was killed. */
  const keepOnly = async (...targets: (string | undefined)[]) => {
    const kept = targets.map((target) => basename(target ?? ""));
    for (const name of await files.readdir(path))
      if (name.startsWith(".")) await files.rm(join(path, name));
    for (const name of await files.readdir(pairs))
      if (!kept.includes(name)) await files.rm(join(pairs, name), { recursive: true, force: true });
  };
  const writeCredentials = async (credentials: Credentials, renewAfter: string) => {
    const name = credentials.fingerprintSha256.slice(0, 32);
    const directory = join(pairs, name);
    await makePrivateDirectory(pairs, files);
    await makePrivateDirectory(directory, files);
    await writeDurably(
      join(directory, credentialFiles.certificate),
      credentials.certificatePem,
      disk,
    );
    await writeDurably(join(directory, credentialFiles.key), credentials.keyPem, disk);
    await writeDurably(join(directory, renewAfterFile), `${renewAfter}\n`, disk);
    await fsyncDirectory(pairs, files);
    return join("pairs", name);
  };

  return {
    path,
    locked: async (action) => {
      await makeOwnDirectory(path, ["current", "lock"], files);
      return withIdentityLock(path, action);
    },
    current: async () => {
      const exists = await files.lstat(currentLink).then(
        () => true,
        () => false,
      );
      return exists ? readCredentials(currentLink) : undefined;
    },
    renewAfter: async () => {
      const text = await files.readFile(join(currentLink, renewAfterFile), "utf8").catch(() => "");
      return parseTimestamp(text.trim());
    },
    prepare: async (subject) => {
      const { createCsr, generateKeyPem } = await import("./request-certificate.ts");
      const subjectText = JSON.stringify([
        subject.purpose,
        subject.identity,
        subject.certificateSha256,
      ]);
      const known = await files.readFile(requestFiles.subject, "utf8").catch(() => undefined);
      let keyPem =
        known === subjectText
          ? await readPrivateText(requestFiles.key, files).catch(() => undefined)
          : undefined;
      if (keyPem === undefined) {
        keyPem = await generateKeyPem();
        await files.rm(request, { recursive: true, force: true });
        await makePrivateDirectory(request, files);
        await writeDurably(requestFiles.key, keyPem, disk);
        await writeDurably(requestFiles.subject, subjectText, disk); // last: it confirms the key
        await fsyncDirectory(path, files);
      }
      return { keyPem, csrPem: await createCsr(subject.identity, keyPem) };
    },
    install: async ({ purpose, certificatePem, renewAfter, accept }) => {
      const credentials = joinCredentials(
        certificatePem,
        await readPrivateText(requestFiles.key, files),
      );
      const before = await linkTarget(currentLink, files);
      const target = await writeCredentials(credentials, renewAfter);
      // A forced enrollment may replace another identity, whose credentials must never be restored.
      if (before !== undefined && purpose === "renew") await switchLink(previousLink, before, disk);
      else await files.rm(previousLink, { force: true });
      const restore = async () => {
        if (before === undefined) await files.rm(currentLink, { force: true });
        else await switchLink(currentLink, before, disk);
        await files.rm(previousLink, { force: true });
      };
      try {
        await switchLink(currentLink, target, disk);
        await accept?.(credentials);
      } catch (error) {
        await restore().catch(() => undefined); // the new credentials are complete too
        throw error;
      }
      const cleanUp = async () => {
        await files.rm(request, { recursive: true, force: true });
        await keepOnly(target, before);
      };
      await cleanUp().catch(() => undefined); // the next installation removes the rest
      return credentials;
    },
    isPendingPromotion: async () => (await previousTarget()) !== undefined,
    promote: async () => {
      await files.rm(previousLink, { force: true });
      await keepOnly(await linkTarget(currentLink, files));
    },
    rollBack: async (nowMs) => {
      const previous = await previousTarget();
      if (previous === undefined) return false;
      const credentials = await readCredentials(previousLink).catch(() => undefined);
      if (credentials === undefined || credentials.certificate.validToDate.getTime() <= nowMs)
        return false;
      await switchLink(currentLink, previous, disk);
      await files.rm(previousLink, { force: true });
      await keepOnly(previous);
      return true;
    },
  };
};

/**
 * Runs `action` while no other process may change the identity directory. Throws `IdentityLockedError` at once if another one
 * does.
 */
const withIdentityLock = async <Result>(
  directory: string,
  action: () => Promise<Result>,
): Promise<Result> => {
  const lock = acquireFileLock(join(directory, "lock"));
  if (lock === null)
    throw new IdentityLockedError(
      "another process is enrolling or renewing with this identity directory",
    );
  try {
    return await action();
  } finally {
    lock.release();
  }
};

/**
 * Returns the identity directory of the config's credentials, if `cert_file` and `key_file` have the layout that `enroll` creates: only
 * there can both be replaced in one step. Undefined for files that are laid out by hand.
 */
export const identityDirectoryOf = ({
  forwarder,
}: Pick<CollectorConfig, "forwarder">): string | undefined => {
  const { certFile, keyFile } = forwarder.mtls;
  const link = dirname(certFile);
  const isEnrolled =
    basename(link) === "current" &&
    dirname(keyFile) === link &&
    basename(certFile) === credentialFiles.certificate &&
    basename(keyFile) === credentialFiles.key;
  return isEnrolled ? dirname(link) : undefined;
};
