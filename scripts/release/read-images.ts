import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { imageDigest } from "../release-manifest/image-archive.ts";
import { compareText } from "../release-manifest/release-path.ts";
import {
  parseReleaseSpec,
  type ReleaseSpec,
  splitImageRef,
} from "../release-manifest/release-spec.ts";
import { parseStrictJson } from "../release-manifest/strict-json.ts";

/** An image of a release, and its archive; null if only its digest is known. */
export type ReleasedImage = ReleaseSpec["images"][number] & { archive: string | null };

/**
 * Reads the images of a release: from a JSON file, or from a folder of OCI layout archives `svc-<name>-<version>.oci.tar`, whose digests a
 * push that preserves them keeps. Images of this product have the release's version as their tag.
 */
export const readImages = async (path: string, version: string): Promise<ReleasedImage[]> => {
  const archived = (await stat(path)).isDirectory()
    ? await archivedImages(path, version)
    : undefined;
  const images = archived?.map(({ name, ref }) => ({ name, ref })) ?? (await listedImages(path));
  const sample = { path: "a", kind: "a", platform: "a" };
  const probe = {
    version,
    artifacts: [sample],
    sboms: [{ path: "b", format: "b", for: "a" }],
    images,
  };
  const parsed = parseReleaseSpec(Buffer.from(JSON.stringify(probe))).images;
  for (const { name, ref } of parsed)
    if (["core", "web", "collector"].includes(name) && splitImageRef(ref)?.tag !== version)
      throw new Error(`--images: ${name} is not tagged ${version}`);
  return parsed.map((image, index) => ({ ...image, archive: archived?.[index]?.archive ?? null }));
};

const listedImages = async (path: string): Promise<unknown> => {
  const { images } = parseStrictJson(await readFile(path), "the file of --images") as {
    images?: unknown;
  };
  return images;
};

const archivedImages = async (folder: string, version: string): Promise<ReleasedImage[]> => {
  const archives = (await readdir(folder))
    .filter((file) => file.endsWith(".tar"))
    .sort(compareText);
  const images: ReleasedImage[] = [];
  for (const archive of archives) {
    const suffix = `-${version}.oci.tar`;
    if (!archive.startsWith("svc-") || !archive.endsWith(suffix))
      throw new Error(`--images: ${archive} is not named svc-<name>${suffix}`);
    const repository = archive.slice(0, -suffix.length);
    const path = join(folder, archive);
    const ref = `${repository}:${version}@sha256:${await imageDigest(path, archive)}`;
    images.push({ name: repository.slice("svc-".length), ref, archive: path });
  }
  return images;
};
