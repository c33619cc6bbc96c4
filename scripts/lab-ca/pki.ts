/**
 * The PKI of a lab, in one directory. Two roots, because two questions are asked: a collector asks whether it talks to core (the
 * server root), core asks whether a collector is one of its fleet (the enrollment CA). Neither CA can answer for the other.
 *
 * Invariants: keys are 0600 in 0700 directories; no file is ever overwritten; the directory appears by one rename, so a lab is
 * either whole or not there.
 */
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../kit/clock.ts";
import { createAuthority, createServerCertificate, type Pair } from "./certificates.ts";

/** Paths of a lab's files: what core's, the edge's and the collectors' settings name. */
export interface LabPki {
  /** Root of the server certificates: collectors' `--ca-bundle`. Its key signs nothing after the lab is made, and is not kept. */
  serverCaFile: string;
  /** Certificate and key of the TLS edge in front of core. */
  edge: PairFiles;
  /** `SVC_INGEST_SERVER_CERT_FILE` and `SVC_INGEST_SERVER_KEY_FILE`. */
  ingest: PairFiles;
  /** `SVC_ENROLLMENT_CA_CERT_FILE`, also `SVC_INGEST_CLIENT_CA_FILE`; and `SVC_ENROLLMENT_CA_KEY_FILE`. */
  enrollmentCa: PairFiles;
}

/** A certificate and its key on disk. */
export interface PairFiles {
  certFile: string;
  keyFile: string;
}

/** What a lab's servers are called. */
export const labServerNames = ["localhost", "127.0.0.1", "::1"] as const;

const dayMs = 86_400_000;
const authorityLifetimeDays = 3650;
const serverLifetimeDays = 397;

/** The paths that a lab in `dir` has, whether or not it is there yet. */
export const labPkiIn = (dir: string): LabPki => {
  const pair = (name: string): PairFiles => ({ certFile: join(dir, `${name}.crt`), keyFile: join(dir, `${name}.key`) });
  return {
    serverCaFile: join(dir, "server-ca.crt"),
    edge: pair("edge"),
    ingest: pair("ingest"),
    enrollmentCa: pair("enrollment-ca"),
  };
};

/**
 * Makes a lab in `dir`, or keeps the one that is there: `created` tells. Server certificates are for `serverNames` (DNS names and
 * addresses) and last 397 days, authorities ten years. Throws if `dir` holds anything else.
 */
export const createLabPki = async (options: {
  dir: string;
  clock: Pick<Clock, "now">;
  serverNames?: readonly string[];
}): Promise<LabPki & { created: boolean }> => {
  const { dir, clock, serverNames = labServerNames } = options;
  const files = labPkiIn(dir);
  if (await isThere(files.enrollmentCa.keyFile)) return { ...files, created: false };
  const from = clock.now() - 60_000;
  const forDays = (days: number) => ({ notBefore: new Date(from), notAfter: new Date(from + days * dayMs) });
  const serverCa = await createAuthority({ name: "Lab server CA", ...forDays(authorityLifetimeDays) });
  const enrollmentCa = await createAuthority({ name: "Lab enrollment CA", ...forDays(authorityLifetimeDays) });
  const server = () =>
    createServerCertificate({ issuer: serverCa, names: serverNames, ...forDays(serverLifetimeDays) });

  await mkdir(dirname(dir), { recursive: true });
  const staging = await mkdtemp(`${dir}.`);
  const staged = labPkiIn(staging);
  try {
    await writeFile(staged.serverCaFile, serverCa.certificatePem, { mode: 0o644, flag: "wx" });
    await writePair(staged.edge, await server());
    await writePair(staged.ingest, await server());
    await writePair(staged.enrollmentCa, enrollmentCa);
    await rename(staging, dir);
  } catch (cause) {
    await rm(staging, { recursive: true });
    throw new Error("the lab could not be put in place; is the directory there already, and not empty?", { cause });
  }
  return { ...files, created: true };
};

/** Writes a pair, the key 0600. Throws `EEXIST` rather than replace a file. */
export const writePair = async (files: PairFiles, pair: Pick<Pair, "certificatePem" | "keyPem">): Promise<void> => {
  await writeFile(files.keyFile, pair.keyPem, { mode: 0o600, flag: "wx" });
  await writeFile(files.certFile, pair.certificatePem, { mode: 0o644, flag: "wx" });
};

const isThere = async (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return false;
      throw error;
    },
  );
