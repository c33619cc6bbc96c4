/*
 * The identity directory: `current` → `pairs/<fingerprint>`, each pair directory with `tls.crt` and `tls.key`, and `request` with
 * the key of a certificate that was asked for and not yet received.
 *
 * Invariants:
 * - `current` points at a whole pair whose halves belong together, or does not exist: it changes by one rename, and only to a
 *   pair that `joinPair` took and that is fsynced.
 * - A key is on disk before its request leaves, and stays under `request` until its pair is complete: an answer that got lost is
 *   asked for again with the same key, and core gives the same certificate.
 * - Nothing is removed that `current` points at, nor the pair before it.
 * All changes are made under the directory's lock.
 */
import { lstat, readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Entropy } from "../../functions/kit/entropy.ts";
import { createCsr, generateKeyPem } from "./csr.ts";
import { withIdentityLock } from "./lock.ts";
import { joinPair, type Pair } from "./pair.ts";
import {
  linkTarget,
  makePrivateDirectory,
  readPrivateText,
  switchLink,
  syncDirectory,
  writeDurably,
} from "./private-files.ts";

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
export const pairFiles = { certificate: "tls.crt", key: "tls.key" } as const;

/** One identity directory. Call its changing members only inside `locked`. */
export interface IdentityDirectory {
  /** Runs `action` as the only process that changes this directory; throws `IdentityLockedError` if another is at it. */
  locked<Result>(action: () => Promise<Result>): Promise<Result>;
  /** The pair in use; undefined if there is none. Throws `PairError` or `UnsafeFileError` if it is damaged. */
  current(): Promise<Pair | undefined>;
  /** The request for `subject`: the one on disk if it is for the same, else one with a fresh key, already durable. */
  prepare(subject: RequestSubject): Promise<CertificateRequest>;
  /**
   * Puts the prepared key and its certificate in use, as one step. Gives a function that puts the pair before it back. Throws
   * `PairError` and changes nothing if the certificate is unusable or is not for the prepared key.
   */
  install(certificatePem: string): Promise<() => Promise<void>>;
}

/** Opens the identity directory `path` (made 0700 when it is first locked). Pairs have their files 0600. */
export const openIdentityDirectory = (path: string, { entropy }: { entropy: Entropy }): IdentityDirectory => {
  const currentLink = join(path, "current");
  const pairs = join(path, "pairs");
  const request = join(path, "request");
  const requestFiles = { subject: join(request, "subject.json"), key: join(request, pairFiles.key) };

  return {
    locked: async (action) => {
      await makePrivateDirectory(path);
      return withIdentityLock(path, action);
    },
    current: async () => {
      const exists = await lstat(currentLink).then(
        () => true,
        () => false,
      );
      if (!exists) return undefined;
      const certificatePem = await readFile(join(currentLink, pairFiles.certificate), "utf8");
      return joinPair(certificatePem, await readPrivateText(join(currentLink, pairFiles.key)));
    },
    prepare: async (subject) => {
      const subjectText = JSON.stringify([subject.purpose, subject.identity, subject.certificateSha256]);
      const known = await readFile(requestFiles.subject, "utf8").catch(() => undefined);
      let keyPem = known === subjectText ? await readPrivateText(requestFiles.key).catch(() => undefined) : undefined;
      if (keyPem === undefined) {
        keyPem = generateKeyPem();
        await rm(request, { recursive: true, force: true });
        await makePrivateDirectory(request);
        await writeDurably(requestFiles.key, keyPem, entropy);
        await writeDurably(requestFiles.subject, subjectText, entropy); // last: it vouches for the key
        await syncDirectory(path);
      }
      return { keyPem, csrPem: createCsr(subject.identity, keyPem) };
    },
    install: async (certificatePem) => {
      const pair = joinPair(certificatePem, await readPrivateText(requestFiles.key));
      const before = await linkTarget(currentLink);
      const target = join(pairs, pair.fingerprintSha256.slice(0, 32));
      await makePrivateDirectory(pairs);
      await makePrivateDirectory(target);
      await writeDurably(join(target, pairFiles.certificate), certificatePem, entropy);
      await writeDurably(join(target, pairFiles.key), pair.keyPem, entropy);
      await syncDirectory(pairs);
      await switchLink(currentLink, join("pairs", basename(target)), entropy);
      await rm(request, { recursive: true, force: true });
      await removeOthers(pairs, [basename(target), basename(before ?? "")]);
      return async () => {
        if (before === undefined) await rm(currentLink, { force: true });
        else await switchLink(currentLink, before, entropy);
      };
    },
  };
};

const removeOthers = async (pairs: string, kept: readonly string[]): Promise<void> => {
  for (const name of await readdir(pairs))
    if (!kept.includes(name)) await rm(join(pairs, name), { recursive: true, force: true });
};
