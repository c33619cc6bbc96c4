import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "#kit/describe-error.ts";
import { filesBelow } from "../bundle/build-folder.ts";
import { licenseFaults, printLicenses } from "../licenses/licenses.ts";
import { checksumsFile, printChecksums } from "../release-manifest/checksums.ts";
import { measureFile } from "../release-manifest/measure-file.ts";
import { printProvenance, provenanceFiles } from "../release-manifest/provenance.ts";
import { createManifest, printManifest } from "../release-manifest/release-manifest.ts";
import { parseReleaseSpec, type ReleaseSpec } from "../release-manifest/release-spec.ts";
import { manifestFile } from "../release-manifest/verify-bundle.ts";
import { buildArtifacts, type ReleaseBuild } from "./build-artifacts.ts";
import { describeImages } from "./describe-images.ts";
import { readImages } from "./read-images.ts";
import { copyDeploymentFiles, renderDocuments } from "./render-documents.ts";
import { createSbom, type DescribedArtifact, sbomFormat } from "./sbom.ts";

const releaseFiles = {
  spec: "release-spec.json",
  licenses: "LICENSES.md",
  documents: "docs",
  deployment: "deploy",
} as const;

/** The files of the commit that decide what a build fetches. */
const lockFiles = [
  "bun.lock",
  "packaging/bun/package-lock.json",
  "Dockerfile.core",
  "Dockerfile.web",
];

/**
 * Builds a release into `out`: artifacts, an SBOM for each and for each image in an archive, the license list, the spec, the manifest, the
 * provenance, the documents, the files of a deployment and SHA256SUMS. `imagesPath` is a JSON file `{images: [{name, ref}]}` or a folder of
 * image archives. Throws if a license is not permissive, or an image contains another program than the release.
 */
export const writeRelease = async (
  release: ReleaseBuild,
  imagesPath: string | undefined,
): Promise<ReleaseSpec> => {
  const { out, version, commit, timestamp } = release;
  // First, because it can be wrong.
  const images = imagesPath === undefined ? [] : await readImages(imagesPath, version);
  const artifacts = await buildArtifacts(release);
  const shippedImages = await describeImages(release, images, artifacts);
  const faults = licenseFaults(artifacts.flatMap(({ packages }) => packages));
  if (faults.length > 0) throw new Error(`licenses:\n  ${[...new Set(faults)].join("\n  ")}`);
  await mkdir(join(out, "sboms"));
  const sboms: ReleaseSpec["sboms"] = [];
  const writeSbom = async (described: Omit<DescribedArtifact, "version">, subject: string) => {
    const path = `sboms/${described.path}.cdx.json`;
    await writeFile(join(out, path), await createSbom({ ...described, version }, timestamp));
    sboms.push({ path, format: sbomFormat, for: subject });
  };
  for (const { path, packages } of artifacts)
    await writeSbom({ path, packages, sha256: (await measureFile(out, path)).sha256 }, path);
  for (const { name, ...image } of shippedImages) await writeSbom(image, name);
  const spec = {
    version,
    artifacts: artifacts.map(({ path, kind, platform }) => ({ path, kind, platform })),
    sboms,
    images: images.map(({ name, ref }) => ({ name, ref })),
  };
  const text = `${JSON.stringify(spec, null, 2)}\n`;
  await writeFile(join(out, releaseFiles.spec), text);
  await writeFile(
    join(out, releaseFiles.licenses),
    printLicenses([...artifacts, ...shippedImages]),
  );
  const checked = parseReleaseSpec(Buffer.from(text));
  const manifest = await createManifest(out, checked);
  await writeFile(join(out, manifestFile), printManifest(manifest));
  const files: Record<string, string> = {};
  for (const path of lockFiles) files[path] = (await measureFile(".", path)).sha256;
  await writeFile(
    join(out, provenanceFiles.statement),
    printProvenance(manifest, { commit: commit.trim(), files }),
  );
  await renderDocuments(join(out, releaseFiles.documents));
  await copyDeploymentFiles(join(out, releaseFiles.deployment));
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
  if (found.length > 0 && !found.includes(checksumsFile))
    throw new Error(`${folder} has something else in it`);
  await rm(folder, { recursive: true, force: true });
};
