/**
 * The PKI of a lab, in one directory, with two roots: collectors verify core by the server CA, core verifies collectors by the
 * enrollment CA, and neither CA is trusted in the place of the other.
 *
 * Invariants: keys are 0600 in 0700 directories; no file is ever overwritten; the directory appears by one rename, so a lab is
 * complete or absent.
 */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { dirname, join } from "node:path";
import { type Clock, dayMs, systemClock } from "#kit/clock.ts";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  randomSerial,
  serverExtensions,
  type TestCa,
  testNames,
  x509,
} from "./test-pki.ts";

/** Paths of a lab's files, for the settings of core, the edge and the collectors. */
export interface LabPki {
  /** Root of the server certificates: collectors' `--ca-bundle`. Its key is discarded once the lab exists. */
  serverCaFile: string;
  /** Certificate and key of the TLS edge in front of core. */
  edge: CredentialFiles;
  /** `SVC_INGEST_SERVER_CERT_FILE` and `SVC_INGEST_SERVER_KEY_FILE`. */
  ingest: CredentialFiles;
  /** `SVC_ENROLLMENT_CA_CERT_FILE`, also `SVC_INGEST_CLIENT_CA_FILE`; and `SVC_ENROLLMENT_CA_KEY_FILE`. */
  enrollmentCa: CredentialFiles;
}

/** A certificate and its key on disk. */
export interface CredentialFiles {
  certFile: string;
  keyFile: string;
}

interface Credentials {
  certificatePem: string;
  /** PKCS#8. */
  keyPem: string;
}

/** Names and addresses of a lab's servers. */
export const labServerNames = ["localhost", "127.0.0.1", "::1"] as const;

const authorityLifetimeDays = 3650;
const serverLifetimeDays = 397;

/** Returns the paths of a lab in `dir`, whether or not it exists. */
export const labPkiIn = (dir: string): LabPki => {
  const filesOf = (name: string): CredentialFiles => ({
    certFile: join(dir, `${name}.crt`),
    keyFile: join(dir, `${name}.key`),
  });
  return {
    serverCaFile: join(dir, "server-ca.crt"),
    edge: filesOf("edge"),
    ingest: filesOf("ingest"),
    enrollmentCa: filesOf("enrollment-ca"),
  };
};

/**
 * Creates a lab in `dir` unless it holds one (`created` is then false). Server certificates are for `serverNames` (DNS names and
 * addresses) and last 397 days, authorities ten years. Throws if `dir` holds anything else.
 */
export const createLabPki = async (options: {
  dir: string;
  clock?: Pick<Clock, "now">;
  serverNames?: readonly string[];
}): Promise<LabPki & { created: boolean }> => {
  const { dir, clock = systemClock, serverNames = labServerNames } = options;
  const files = labPkiIn(dir);
  if (existsSync(files.enrollmentCa.keyFile)) return { ...files, created: false };
  const from = clock.now() - 60_000;
  const forDays = (days: number) => ({
    notBefore: new Date(from),
    notAfter: new Date(from + days * dayMs),
  });
  const authority = (name: string) =>
    createTestCa({
      name,
      serialNumber: randomSerial(),
      pathLength: 0,
      ...forDays(authorityLifetimeDays),
    });
  const serverCa = await authority("Lab server CA");
  const enrollmentCa = await authority("Lab enrollment CA");
  const server = () => issueServerCertificate(serverCa, serverNames, forDays(serverLifetimeDays));

  await mkdir(dirname(dir), { recursive: true });
  const staging = await mkdtemp(`${dir}.`);
  const staged = labPkiIn(staging);
  try {
    await writeFile(staged.serverCaFile, serverCa.pem, { mode: 0o644, flag: "wx" });
    await writeCredentialFiles(staged.edge, await server());
    await writeCredentialFiles(staged.ingest, await server());
    await writeCredentialFiles(staged.enrollmentCa, {
      certificatePem: enrollmentCa.pem,
      keyPem: enrollmentCa.key.pem,
    });
    await rename(staging, dir);
  } catch (cause) {
    await rm(staging, { recursive: true });
    throw new Error(
      "the lab could not be put in place; is the directory there already, and not empty?",
      { cause },
    );
  }
  return { ...files, created: true };
};

/** Issues a TLS server certificate for DNS names and IP addresses. */
const issueServerCertificate = async (
  ca: TestCa,
  names: readonly string[],
  validity: { notBefore: Date; notAfter: Date },
): Promise<Credentials> => {
  const key = await createTestKey();
  const alternatives = names.map((value) => ({
    type: isIP(value) === 0 ? ("dns" as const) : ("ip" as const),
    value,
  }));
  const extensions = [
    testNames(alternatives, false),
    ...serverExtensions(),
    await x509.SubjectKeyIdentifierExtension.create(key.pair.publicKey),
    await x509.AuthorityKeyIdentifierExtension.create(ca.certificate),
  ];
  const subject = `CN=${names[0] ?? ""}`;
  const der = await issueTestCertificate({
    ca,
    key,
    subject,
    serialNumber: randomSerial(),
    extensions,
    ...validity,
  });
  return { certificatePem: encodePem(der, "CERTIFICATE"), keyPem: key.pem };
};

/** Writes a certificate, and its key 0600. Throws `EEXIST` rather than replace a file. */
export const writeCredentialFiles = async (
  files: CredentialFiles,
  credentials: Credentials,
): Promise<void> => {
  await writeFile(files.keyFile, credentials.keyPem, { mode: 0o600, flag: "wx" });
  await writeFile(files.certFile, credentials.certificatePem, { mode: 0o644, flag: "wx" });
};

/** Reads a certificate and its key, in PEM. */
export const readCredentialFiles = async ({ certFile, keyFile }: CredentialFiles) => ({
  cert: await readFile(certFile, "utf8"),
  key: await readFile(keyFile, "utf8"),
});
