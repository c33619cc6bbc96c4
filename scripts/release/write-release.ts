import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../kit/describe-error.ts";
import { filesBelow } from "../bundle/build-folder.ts";
import { licenseFaults, printLicenses } from "../licenses/licenses.ts";
import { checksumsFile, printChecksums } from "../release-manifest/checksums.ts";
import { imageDigest } from "../release-manifest/image-archive.ts";
import { measureFile } from "../release-manifest/measure-file.ts";
import { createManifest, printManifest } from "../release-manifest/release-manifest.ts";
import { compareText } from "../release-manifest/release-path.ts";
import { parseReleaseSpec, type ReleaseSpec, splitImageRef } from "../release-manifest/release-spec.ts";
import { parseStrictJson } from "../release-manifest/strict-json.ts";
import { manifestFile } from "../release-manifest/verify-bundle.ts";
import { buildArtifacts, type ReleaseBuild } from "./build-artifacts.ts";
import { createSbom, sbomFormat } from "./sbom.ts";

const releaseFiles = {
  spec: "release-spec.json",
  licenses: "LICENSES.md",
} as const;

/**
 * Builds a release into `out`: artifacts, an SBOM for each, the licence list, the spec, the manifest and SHA256SUMS. `imagesPath` is
 * a JSON file `{images: [{name, ref}]}` or a folder of image archives. Throws if a licence is not permissive.
 */
export const writeRelease = async (release: ReleaseBuild, imagesPath: string | undefined): Promise<ReleaseSpec> => {
  const { out, version, timestamp } = release;
  // First, because it can be wrong.
  const images = imagesPath === undefined ? [] : await readImages(imagesPath, version);
  const artifacts = await buildArtifacts(release);
  const faults = licenseFaults(artifacts.flatMap(({ packages }) => packages));
  if (faults.length > 0) throw new Error(`licences:\n  ${[...new Set(faults)].join("\n  ")}`);
  await mkdir(join(out, "sboms"));
  const sboms: ReleaseSpec["sboms"] = [];
  for (const { path, packages } of artifacts) {
    const { sha256 } = await measureFile(out, path);
    const sbom = `sboms/${path}.cdx.json`;
    await writeFile(join(out, sbom), await createSbom({ path, version, sha256, packages }, timestamp));
    sboms.push({ path: sbom, format: sbomFormat, for: path });
  }
  const spec = {
    version,
    artifacts: artifacts.map(({ path, kind, platform }) => ({ path, kind, platform })),
    sboms,
    images,
  };
  const text = `${JSON.stringify(spec, null, 2)}\n`;
  await writeFile(join(out, releaseFiles.spec), text);
  await writeFile(join(out, releaseFiles.licenses), printLicenses(artifacts));
  const checked = parseReleaseSpec(Buffer.from(text));
  await writeFile(join(out, manifestFile), printManifest(await createManifest(out, checked)));
  await writeChecksums(out);
  return checked;
};

/** Writes SHA256SUMS over every other file below `folder`. */
export const writeChecksums = async (folder: string): Promise<void> => {
  const digests = new Map<string, string>();
  for (const path of await filesBelow(folder))
    if (path !== checksumsFile) digests.set(path, (await measureFile(folder, path)).sha256);
  await writeFile(join(folder, checksumsFile), printChecksums(digests));
};

/** Removes what an earlier run wrote to `folder`. Throws if something else is there. */
export const removeOutput = async (folder: string): Promise<void> => {
  const found = await readdir(folder).catch((error: unknown): string[] => {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  });
  if (found.length > 0 && !found.includes(checksumsFile)) throw new Error(`${folder} has something else in it`);
  await rm(folder, { recursive: true, force: true });
};

/**
 * Reads the images of a release: from a JSON file, or from a folder of OCI layout archives `svc-<name>-<version>.oci.tar`, whose digests a
 * push that preserves them keeps. Images of this product have the release's version as their tag.
 */
const readImages = async (path: string, version: string): Promise<ReleaseSpec["images"]> => {
  const images = (await stat(path)).isDirectory() ? await archivedImages(path, version) : await listedImages(path);
  const sample = { path: "a", kind: "a", platform: "a" };
  const probe = { version, artifacts: [sample], sboms: [{ path: "b", format: "b", for: "a" }], images };
  const parsed = parseReleaseSpec(Buffer.from(JSON.stringify(probe))).images;
  for (const { name, ref } of parsed)
    if (["core", "web", "collector"].includes(name) && splitImageRef(ref)?.tag !== version)
      throw new Error(`--images: ${name} is not tagged ${version}`);
  return parsed;
};

const listedImages = async (path: string): Promise<unknown> => {
  const { images } = parseStrictJson(await readFile(path), "the file of --images") as { images?: unknown };
  return images;
};

const archivedImages = async (folder: string, version: string): Promise<ReleaseSpec["images"]> => {
  const archives = (await readdir(folder)).filter((file) => file.endsWith(".tar")).sort(compareText);
  const images: ReleaseSpec["images"] = [];
  for (const archive of archives) {
    const suffix = `-${version}.oci.tar`;
    if (!archive.startsWith("svc-") || !archive.endsWith(suffix))
      throw new Error(`--images: ${archive} is not named svc-<name>${suffix}`);
    const repository = archive.slice(0, -suffix.length);
    const digest = await imageDigest(join(folder, archive), archive);
    images.push({ name: repository.slice("svc-".length), ref: `${repository}:${version}@sha256:${digest}` });
  }
  return images;
};
