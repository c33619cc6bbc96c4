import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { filesBelow } from "../bundle/build-folder.ts";
import { licenseFaults, printLicenses } from "../licenses/licenses.ts";
import { checksumsFile, printChecksums } from "../release-manifest/checksums.ts";
import { measureFile } from "../release-manifest/measure-file.ts";
import { createManifest, printManifest } from "../release-manifest/release-manifest.ts";
import { parseReleaseSpec, type ReleaseSpec, splitImageRef } from "../release-manifest/release-spec.ts";
import { parseStrictJson } from "../release-manifest/strict-json.ts";
import { buildArtifacts, type ReleaseBuild } from "./build-artifacts.ts";
import { createSbom, sbomFormat } from "./sbom.ts";

/** The names of a release's own files. */
export const releaseFiles = {
  spec: "release-spec.json",
  manifest: "release-manifest.json",
  licenses: "LICENSES.md",
} as const;

/**
 * Builds a release into `out`: artifacts, an SBOM for each, the licence list, the spec, the manifest and SHA256SUMS. `imagesFile` is a
 * JSON file `{images: [{name, ref}]}`. Throws if a licence is not permissive.
 */
export const writeRelease = async (release: ReleaseBuild, imagesFile: string | undefined): Promise<ReleaseSpec> => {
  const { out, version, timestamp } = release;
  // First, because it can be wrong.
  const images = imagesFile === undefined ? [] : await readImages(imagesFile, version);
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
  await writeFile(join(out, releaseFiles.manifest), printManifest(await createManifest(out, checked)));
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

/** Reads the images of a release. Images of this product have the release's version as their tag. */
const readImages = async (path: string, version: string): Promise<ReleaseSpec["images"]> => {
  const { images } = parseStrictJson(await readFile(path), "the file of --images") as { images?: unknown };
  const sample = { path: "a", kind: "a", platform: "a" };
  const probe = { version, artifacts: [sample], sboms: [{ path: "b", format: "b", for: "a" }], images };
  const parsed = parseReleaseSpec(Buffer.from(JSON.stringify(probe))).images;
  for (const { name, ref } of parsed)
    if (["core", "web", "collector"].includes(name) && splitImageRef(ref)?.tag !== version)
      throw new Error(`--images: ${name} is not tagged ${version}`);
  return parsed;
};
