/*
 * The identity directory: `current` → `pairs/<fingerprint>`, each pair directory with `tls.crt` and `tls.key` and when to renew
 * it; `previous` → the pair before, while the current one has not served yet; and `request` with the key of a certificate that was
 * asked for and not yet received.
 *
 * Invariants:
 * - `current` points at a whole pair whose halves belong together, or does not exist: it changes by one rename, and only to a
 *   pair that `joinCredentials` took and that is fsynced.
 * - A key is on disk before its request leaves, and stays under `request` until its pair is in use: an answer that got lost is
 *   asked for again with the same key, and core gives the same certificate.
 * - Nothing is removed that `current` points at, nor the pair before it until `promote` says that the current one has served.
 * - `previous` names the pair by which the current one was renewed, so core knows it for as long as it does not know the current.
 * All changes are made under the directory's lock.
 */
import { basename, join } from "node:path";
import { parseTimestamp } from "../../proto/management/text.ts";
import {
  type Disk,
  fsyncDirectory,
  linkTarget,
  makePrivateDirectory,
  readPrivateText,
  switchLink,
  systemFiles,
  writeDurably,
} from "../files/private-files.ts";
import { type Credentials, joinCredentials } from "./credentials.ts";
import { withIdentityLock } from "./lock.ts";

/** What a certificate request is about: while it is the same, a request that got no answer is repeated with its key. */
export interface RequestSubject {
  purpose: "enroll" | "renew";
  identity: string;
  /** Fingerprint of the certificate that is renewed; empty for an enrollment. */
  certificateSha256: string;
}

/** A key on disk and the request made from it. */
export interface CertificateRequest {
  readonly csrPem: string;
  readonly keyPem: string;
}

/** Names of the files of a pair, relative to the directory that `current` points at. */
export const credentialFiles = { certificate: "tls.crt", key: "tls.key" } as const;
const renewAfterFile = "renew-after";

/** A certificate for the prepared key, to be put in use. */
export interface Installation {
  /** With `renew` the pair before, which is of the same identity, is kept as `previous`. */
  purpose: RequestSubject["purpose"];
  certificatePem: string;
  /** When core wants it renewed, RFC 3339. */
  renewAfter: string;
  /** Rejects if the pair cannot stay in use: then the one before is put back. */
  accept?: (pair: Credentials) => Promise<void>;
}

/** One identity directory. Call its changing members only inside `locked`. */
export interface IdentityDirectory {
  readonly path: string;
  /** Runs `action` as the only one that changes this directory; throws `IdentityLockedError` if another is at it. */
  locked<Result>(action: () => Promise<Result>): Promise<Result>;
  /** The pair in use; undefined if there is none. Throws `CredentialsError` or `UnsafeFileError` if it is damaged. */
  current(): Promise<Credentials | undefined>;
  /** When core wants the pair in use renewed, milliseconds since the epoch; undefined if that is not known. */
  renewAfter(): Promise<number | undefined>;
  /** The request for `subject`: the one on disk if it is for the same, else one with a fresh key, already durable. */
  prepare(subject: RequestSubject): Promise<CertificateRequest>;
  /**
   * Puts the prepared key and its certificate in use, as one step. Throws `CredentialsError` and changes nothing if the certificate is
   * unusable or is not for the prepared key; whatever else fails, `current` points at the pair before or at the whole new one, and
   * the same request may be made again.
   */
  install(installation: Installation): Promise<Credentials>;
  /** Whether the pair in use is new and the one that it renews is still kept. */
  isPendingPromotion(): Promise<boolean>;
  /** The pair in use has served: the one before it is removed. */
  promote(): Promise<void>;
  /** Core does not know the pair in use: takes up the one before it. False if there is none, or if it is damaged or expired. */
  rollBack(nowMs: number): Promise<boolean>;
}

/** Opens the identity directory `path` (made 0700 when it is first locked). Pairs have their files 0600. */
export const openIdentityDirectory = (path: string, disk: Disk): IdentityDirectory => {
  const { files = systemFiles } = disk;
  const currentLink = join(path, "current");
  const previousLink = join(path, "previous");
  const pairs = join(path, "pairs");
  const request = join(path, "request");
  const requestFiles = { subject: join(request, "subject.json"), key: join(request, credentialFiles.key) };

  const readCredentials = async (directory: string): Promise<Credentials> => {
    const certificatePem = await files.readFile(join(directory, credentialFiles.certificate), "utf8");
    return joinCredentials(certificatePem, await readPrivateText(join(directory, credentialFiles.key), files));
  };
  /** Undefined also between the two steps of a swap or of a way back, when both links name one pair. */
  const previousTarget = async (): Promise<string | undefined> => {
    const previous = await linkTarget(previousLink, files);
    return previous === (await linkTarget(currentLink, files)) ? undefined : previous;
  };
  /** Removes the other pairs, and the temporary links of a process that was killed. */
  const keepOnly = async (...targets: (string | undefined)[]): Promise<void> => {
    const kept = targets.map((target) => basename(target ?? ""));
    for (const name of await files.readdir(path)) if (name.startsWith(".")) await files.rm(join(path, name));
    for (const name of await files.readdir(pairs))
      if (!kept.includes(name)) await files.rm(join(pairs, name), { recursive: true, force: true });
  };
  const writePair = async (pair: Credentials, renewAfter: string): Promise<string> => {
    const name = pair.fingerprintSha256.slice(0, 32);
    const directory = join(pairs, name);
    await makePrivateDirectory(pairs, files);
    await makePrivateDirectory(directory, files);
    await writeDurably(join(directory, credentialFiles.certificate), pair.certificatePem, disk);
    await writeDurably(join(directory, credentialFiles.key), pair.keyPem, disk);
    await writeDurably(join(directory, renewAfterFile), `${renewAfter}\n`, disk);
    await fsyncDirectory(pairs, files);
    return join("pairs", name);
  };

  return {
    path,
    locked: async (action) => {
      await makePrivateDirectory(path, files);
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
      const subjectText = JSON.stringify([subject.purpose, subject.identity, subject.certificateSha256]);
      const known = await files.readFile(requestFiles.subject, "utf8").catch(() => undefined);
      let keyPem =
        known === subjectText ? await readPrivateText(requestFiles.key, files).catch(() => undefined) : undefined;
      if (keyPem === undefined) {
        keyPem = await generateKeyPem();
        await files.rm(request, { recursive: true, force: true });
        await makePrivateDirectory(request, files);
        await writeDurably(requestFiles.key, keyPem, disk);
        await writeDurably(requestFiles.subject, subjectText, disk); // last: it vouches for the key
        await fsyncDirectory(path, files);
      }
      return { keyPem, csrPem: await createCsr(subject.identity, keyPem) };
    },
    install: async ({ purpose, certificatePem, renewAfter, accept }) => {
      const pair = joinCredentials(certificatePem, await readPrivateText(requestFiles.key, files));
      const before = await linkTarget(currentLink, files);
      const target = await writePair(pair, renewAfter);
      // What an enrollment by force replaces may be another identity's, and must never come back.
      if (before !== undefined && purpose === "renew") await switchLink(previousLink, before, disk);
      else await files.rm(previousLink, { force: true });
      const putBack = async () => {
        if (before === undefined) await files.rm(currentLink, { force: true });
        else await switchLink(currentLink, before, disk);
        await files.rm(previousLink, { force: true });
      };
      try {
        await switchLink(currentLink, target, disk);
        await accept?.(pair);
      } catch (error) {
        await putBack().catch(() => undefined); // the new pair is whole too
        throw error;
      }
      const cleanUp = async () => {
        await files.rm(request, { recursive: true, force: true });
        await keepOnly(target, before);
      };
      await cleanUp().catch(() => undefined); // what is left is removed by the next one
      return pair;
    },
    isPendingPromotion: async () => (await previousTarget()) !== undefined,
    promote: async () => {
      await files.rm(previousLink, { force: true });
      await keepOnly(await linkTarget(currentLink, files));
    },
    rollBack: async (nowMs) => {
      const previous = await previousTarget();
      if (previous === undefined) return false;
      const pair = await readCredentials(previousLink).catch(() => undefined);
      if (pair === undefined || pair.certificate.validToDate.getTime() <= nowMs) return false;
      await switchLink(currentLink, previous, disk);
      await files.rm(previousLink, { force: true });
      await keepOnly(previous);
      return true;
    },
  };
};
