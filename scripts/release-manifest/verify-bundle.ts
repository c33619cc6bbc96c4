import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { lt, valid } from "semver";
import { writeDurably } from "#collector/files/private-files.ts";
import { errorCode } from "#kit/describe-error.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { checksumsFile, parseChecksums } from "./checksums.ts";
import { imageDigest } from "./image-archive.ts";
import { measureFile } from "./measure-file.ts";
import { verifyMinisign } from "./minisign.ts";
import { provenanceFault, provenanceFiles } from "./provenance.ts";
import { ReleaseFailure } from "./release-failure.ts";
import {
  createManifest,
  manifestFormat,
  printManifest,
  type ReleaseManifest,
} from "./release-manifest.ts";
import { compareText } from "./release-path.ts";
import { parseReleaseSpec, splitImageRef } from "./release-spec.ts";
import { parseStrictJson } from "./strict-json.ts";

/** The signature of SHA256SUMS: the 64 bytes of Ed25519, as openssl and cosign read them. */
export const signatureFile = `${checksumsFile}.sig`;

/** The same key's signature of SHA256SUMS in minisign's format. */
export const minisignFile = `${checksumsFile}.minisig`;

/** The name of the manifest in a release and in a mirror bundle. */
export const manifestFile = "release-manifest.json";

/** The folder of the image archives in a mirror bundle. */
export const imagesFolder = "images";

/** The folder of the metadata of the Debian repository in a mirror bundle. */
export const repositoryFolder = "dists/stable";

/** Pins the image of the database, which is not of this product and may be among the archives. */
const composeFile = "deploy/compose.yaml";

/** What a mirror bundle that passes contains. */
export interface VerifiedBundle {
  version: string;
  /** The day of the release, from the signed metadata of the repository: `2026-01-02`. */
  date: string;
  files: number;
  images: number;
}

/**
 * Verifies a mirror bundle with the public key (PEM) of its signer, offline: the signatures of SHA256SUMS; that it lists every file and that
 * each has its digest; the manifest; that the image archives are the images of the manifest; and the provenance. Throws `ReleaseFailure` (1), whose
 * details name every file that is changed, unknown or missing.
 */
export const verifyBundle = async (
  folder: string,
  publicKeyPem: string,
): Promise<VerifiedBundle> => {
  const key = readPublicKey(publicKeyPem);
  const digests = await readSignedDigests(folder, key);
  const faults = [
    ...(await unknownEntries(
      folder,
      new Set([...digests.keys(), checksumsFile, signatureFile, minisignFile]),
    )),
    ...(await changedFiles(folder, digests)),
  ];
  if (faults.length > 0)
    throw new ReleaseFailure(
      "failed",
      "the bundle is not what was signed",
      faults.sort(compareText),
    );
  const manifest = await readManifest(folder);
  const archives = [...digests.keys()].filter((path) => path.startsWith(`${imagesFolder}/`));
  await checkImages(folder, manifest, archives);
  await checkProvenance(folder, manifest, key);
  return {
    version: manifest.version,
    date: await readDate(folder),
    files: digests.size,
    images: archives.length,
  };
};

const readDate = async (folder: string): Promise<string> => {
  const path = `${repositoryFolder}/Release`;
  const metadata = await readFile(join(folder, path), "utf8").catch(() => "");
  const time = Date.parse(/^Date: (.+)$/m.exec(metadata)?.[1] ?? "");
  if (Number.isNaN(time)) throw new ReleaseFailure("failed", `${path} has no date`);
  return new Date(time).toISOString().slice(0, 10);
};

/** What a bundle must be beside genuine. */
export interface ExpectedRelease {
  /** Exactly this version. */
  version?: string | undefined;
  minVersion?: string | undefined;
  /** Released on this day or later: `2026-01-02`. */
  notBefore?: string | undefined;
}

/**
 * Rejects a bundle that is not the expected release, or without an expected version older than the newest that has passed, which the file
 * `seen` records. Every release that was ever signed keeps its valid signature, so only this tells the current one from an earlier one with
 * known faults.
 */
export const checkExpected = async (
  { version, date }: Pick<VerifiedBundle, "version" | "date">,
  expected: ExpectedRelease,
  seen: string,
): Promise<void> => {
  const name = basename(seen);
  const reject = (message: string) => new ReleaseFailure("failed", message);
  if (expected.version !== undefined && version !== expected.version)
    throw reject(`the bundle is version ${version}, and --expect-version is ${expected.version}`);
  if (expected.minVersion !== undefined && lt(version, expected.minVersion))
    throw reject(`the bundle is version ${version}, and --min-version is ${expected.minVersion}`);
  if (expected.notBefore !== undefined && date < expected.notBefore)
    throw reject(`the bundle is of ${date}, and --not-before is ${expected.notBefore}`);
  const recorded = await readFile(seen, "utf8").catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return undefined;
    throw reject(`${name} cannot be read; name the version with --min-version`);
  });
  const newest = recorded?.trim();
  if (newest !== undefined && valid(newest) === null)
    throw reject(`${name} is not a version; write the newest into it that you have verified`);
  const named = expected.version ?? expected.minVersion;
  if (named === undefined && newest !== undefined && lt(version, newest))
    throw reject(
      `the bundle is version ${version}, and ${newest} was verified before (${name}); --expect-version ${version} accepts it`,
    );
  if (newest !== undefined && !lt(newest, version)) return;
  await writeDurably(seen, `${version}\n`, { entropy: systemEntropy }, 0o644).catch(() => {
    throw reject(`${name} cannot be written; give a --key in a folder that this user may write to`);
  });
};

const readPublicKey = (pem: string): KeyObject => {
  let key: KeyObject | undefined;
  try {
    // A private key would be accepted, too; it does not belong where bundles are verified.
    key = pem.includes("PUBLIC KEY") ? createPublicKey(pem) : undefined;
  } catch {
    key = undefined;
  }
  if (key?.asymmetricKeyType === "ed25519") return key;
  throw new ReleaseFailure("failed", "the file of --key is not an Ed25519 public key (PEM)");
};

const readSignedDigests = async (
  folder: string,
  key: KeyObject,
): Promise<ReadonlyMap<string, string>> => {
  const read = async (path: string) => {
    await measureFile(folder, path);
    return readFile(join(folder, path));
  };
  const sums = await read(checksumsFile);
  const signature = await read(signatureFile);
  const minisign = await read(minisignFile);
  const refuse = (file: string) =>
    new ReleaseFailure("failed", `${file} is not the signature of ${checksumsFile} by this key`);
  if (!verify(null, sums, key, signature)) throw refuse(signatureFile);
  if (!verifyMinisign(sums, minisign.toString("utf8"), key)) throw refuse(minisignFile);
  const digests = parseChecksums(sums.toString("utf8"));
  if (digests === undefined) throw new ReleaseFailure("failed", `${checksumsFile} is not valid`);
  return digests;
};

/** Returns a sentence for each file that is not `known`, each link, pipe or device, and each empty folder. */
const unknownEntries = async (
  root: string,
  known: ReadonlySet<string>,
  folder = "",
): Promise<string[]> => {
  const faults: string[] = [];
  const entries = await readdir(join(root, folder), { withFileTypes: true });
  if (entries.length === 0 && folder !== "")
    faults.push(`${printed(folder)}/ is an unknown, empty folder`);
  for (const entry of entries) {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) faults.push(...(await unknownEntries(root, known, path)));
    else if (!known.has(path)) faults.push(`${printed(path)} is unknown`);
    else if (!entry.isFile()) faults.push(`${path} is not a regular file`);
  }
  return faults;
};

/** A name that nobody signed may hold control characters. */
const printed = (path: string): string => JSON.stringify(path).slice(1, -1);

const changedFiles = async (
  folder: string,
  digests: ReadonlyMap<string, string>,
): Promise<string[]> => {
  const faults: string[] = [];
  for (const [path, sha256] of digests)
    try {
      if ((await measureFile(folder, path)).sha256 !== sha256) faults.push(`${path} is changed`);
    } catch (error) {
      if (!(error instanceof ReleaseFailure)) throw error;
      faults.push(error.message);
    }
  return faults;
};

/** Reads the manifest of a folder, and creates it again: it must have the same bytes. */
const readManifest = async (folder: string): Promise<ReleaseManifest> => {
  const bytes = await readFile(join(folder, manifestFile)).catch(() => {
    throw new ReleaseFailure("failed", `${manifestFile} is missing`);
  });
  try {
    const found = parseStrictJson(bytes, manifestFile) as ReleaseManifest;
    const spec = {
      version: found.version,
      artifacts: found.artifacts.map(({ size_bytes: _, sha256: __, ...entry }) => entry),
      sboms: found.sboms.map(({ size_bytes: _, sha256: __, ...entry }) => entry),
      images: found.images,
    };
    const created = await createManifest(
      folder,
      parseReleaseSpec(Buffer.from(JSON.stringify(spec))),
    );
    if (found.format === manifestFormat && printManifest(created) === bytes.toString("utf8"))
      return created;
  } catch (error) {
    if (error instanceof ReleaseFailure)
      throw new ReleaseFailure("failed", error.message, error.details);
  }
  throw new ReleaseFailure("failed", `${manifestFile} does not describe these files`);
};

const checkImages = async (
  folder: string,
  { images }: ReleaseManifest,
  archives: readonly string[],
): Promise<void> => {
  const pinned = new Map(images.map(({ name, ref }) => [splitImageRef(ref)?.digest, name]));
  const compose = await readFile(join(folder, composeFile), "utf8").catch(() => "");
  const database = /SVC_POSTGRES_IMAGE:-\S+@sha256:([0-9a-f]{64})\}/.exec(compose)?.[1];
  const faults: string[] = [];
  const found = new Set<string>();
  for (const path of archives) {
    const digest = await imageDigest(join(folder, path), path);
    if (pinned.has(digest) || digest === database) found.add(digest);
    else faults.push(`${path} is sha256:${digest}, which the manifest does not list`);
  }
  for (const [digest, name] of pinned)
    if (digest !== undefined && !found.has(digest))
      faults.push(`${name}: no archive of sha256:${digest}`);
  if (faults.length > 0)
    throw new ReleaseFailure("failed", "the images are not those of the manifest", faults);
};

const checkProvenance = async (
  folder: string,
  manifest: ReleaseManifest,
  key: KeyObject,
): Promise<void> => {
  const read = (path: string) =>
    readFile(join(folder, path)).catch(() => {
      throw new ReleaseFailure("failed", `${path} is missing`);
    });
  const statement = await read(provenanceFiles.statement);
  const envelope = (await read(provenanceFiles.envelope)).toString("utf8");
  const fault = provenanceFault({ statement, envelope }, manifest, key);
  if (fault !== undefined) throw new ReleaseFailure("failed", fault);
};
