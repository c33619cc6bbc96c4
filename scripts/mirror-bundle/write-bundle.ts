import { createPublicKey, type KeyObject, sign } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { removeOutput, writeChecksums } from "../release/write-release.ts";
import { checksumsFile, parseChecksums } from "../release-manifest/checksums.ts";
import { measureFile } from "../release-manifest/measure-file.ts";
import { signMinisign } from "../release-manifest/minisign.ts";
import { provenanceFiles, signProvenance } from "../release-manifest/provenance.ts";
import type { ReleaseManifest } from "../release-manifest/release-manifest.ts";
import {
  imagesFolder,
  manifestFile,
  minisignFile,
  signatureFile,
  type VerifiedBundle,
  verifyBundle,
} from "../release-manifest/verify-bundle.ts";
import { writeDebianRepository } from "./debian-repository.ts";

/** What a bundle is made from: folders, and the Ed25519 private key that signs it. */
export interface BundleSources {
  release: string;
  /** OCI layout archives (`*.tar`); without it the manifest must list no image. */
  images: string | undefined;
  key: KeyObject;
  /** Signs the Debian repository in the folder that it gets. */
  signRepository: (folder: string) => Promise<void>;
}

/**
 * Writes a mirror bundle to `out`, in place of an earlier one: the release, its images, a signed Debian repository, the signed provenance,
 * SHA256SUMS over every file, and its signatures. Throws if the release is not what its own SHA256SUMS says, or the images are not those of
 * the manifest.
 */
export const writeBundle = async (out: string, sources: BundleSources): Promise<VerifiedBundle> => {
  const building = `${out}.building`;
  await rm(building, { recursive: true, force: true });
  try {
    const bundle = await fillBundle(building, sources);
    await removeOutput(out);
    await rename(building, out);
    return bundle;
  } finally {
    await rm(building, { recursive: true, force: true });
  }
};

const fillBundle = async (
  folder: string,
  { release, images, key, signRepository }: BundleSources,
): Promise<VerifiedBundle> => {
  await copyRelease(release, folder);
  if (images !== undefined) {
    await mkdir(join(folder, imagesFolder));
    for (const name of (await readdir(images)).filter((file) => file.endsWith(".tar")))
      await copyFile(join(images, name), join(folder, imagesFolder, name));
  }
  const manifest: ReleaseManifest = JSON.parse(await readFile(join(folder, manifestFile), "utf8"));
  await writeDebianRepository(folder, manifest, await releaseTime(folder, manifest));
  await signRepository(folder);
  const statement = await readFile(join(folder, provenanceFiles.statement));
  await writeFile(join(folder, provenanceFiles.envelope), signProvenance(statement, key));
  await writeChecksums(folder);
  const sums = await readFile(join(folder, checksumsFile));
  await writeFile(join(folder, signatureFile), sign(null, sums, key));
  await writeFile(
    join(folder, minisignFile),
    signMinisign(sums, key, `${checksumsFile} of ${manifest.version}`),
  );
  return verifyBundle(folder, publicKeyOf(key));
};

/** Returns the public key of `key` as PEM. */
export const publicKeyOf = (key: KeyObject): string =>
  createPublicKey(key).export({ type: "spki", format: "pem" }).toString();

/** Copies what SHA256SUMS of a release lists, and nothing else. */
const copyRelease = async (from: string, to: string): Promise<void> => {
  const digests = parseChecksums(await readFile(join(from, checksumsFile), "utf8"));
  if (digests === undefined) throw new Error(`${checksumsFile} of the release is not valid`);
  for (const [path, sha256] of digests) {
    await mkdir(dirname(join(to, path)), { recursive: true });
    await copyFile(join(from, path), join(to, path));
    if ((await measureFile(to, path)).sha256 !== sha256)
      throw new Error(`${path} is not what the release built`);
  }
};

/** The time of the release's commit, which each SBOM has. */
const releaseTime = async (folder: string, { sboms }: ReleaseManifest): Promise<Date> => {
  const sbom: { metadata: { timestamp: string } } = JSON.parse(
    await readFile(join(folder, sboms[0]?.path ?? ""), "utf8"),
  );
  return new Date(sbom.metadata.timestamp);
};
