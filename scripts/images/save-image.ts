import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { filesBelow } from "../bundle/build-folder.ts";
import { type PackedFile, packFiles } from "../release/pack-tarball.ts";
import type { ContainerTools } from "./container-tools.ts";

/** The parts of the files of an OCI layout that are used here. */
interface Descriptor {
  digest: string;
  size: number;
}
interface Index {
  manifests: Descriptor[];
}
interface Manifest {
  config: Descriptor;
}
interface Config {
  history?: { comment?: string }[];
}

/**
 * Writes an image as an OCI layout archive to `file` and returns its size and the digest of its manifest, by which registries know it
 * when it is pushed without compressing its layers anew. The same layers and configuration give the same bytes: entries are sorted and have
 * `timestamp`, and the history leaves out the comments of buildah, which name intermediate images by random ids.
 */
export const saveImage = async (
  { dir, podman }: ContainerTools,
  { reference, file, timestamp }: { reference: string; file: string; timestamp: Date },
): Promise<{ file: string; bytes: number; digest: string }> => {
  const layout = await mkdtemp(join(dir, "tmp", "layout-"));
  try {
    await podman(["save", "--quiet", "--format", "oci-dir", "--output", layout, reference]);
    const { files, digest } = await normalize(layout);
    const archive = await packFiles(files, timestamp);
    await writeFile(file, archive);
    return { file, bytes: archive.length, digest };
  } finally {
    await rm(layout, { recursive: true, force: true });
  }
};

/** Returns the files of an OCI layout without the comments in its history, and the digest of its manifest then. */
const normalize = async (layout: string): Promise<{ files: PackedFile[]; digest: string }> => {
  const blobPath = (digest: string) => `blobs/sha256/${digest.slice("sha256:".length)}`;
  const readJson = async <Content>(path: string): Promise<Content> =>
    JSON.parse(await readFile(join(layout, path), "utf8"));
  const index = await readJson<Index>("index.json");
  const [listed] = index.manifests;
  if (listed === undefined) throw new Error("podman saved no manifest");
  const manifest = await readJson<Manifest>(blobPath(listed.digest));
  const config = await readJson<Config>(blobPath(manifest.config.digest));
  const history = config.history?.map(({ comment: _, ...entry }) => entry);
  const newConfig = blobOf({ ...config, history });
  const newManifest = blobOf({ ...manifest, config: { ...manifest.config, ...newConfig.descriptor } });
  const replaced = new Set([listed.digest, manifest.config.digest].map(blobPath).concat("index.json"));
  const kept = (await filesBelow(layout)).filter((path) => !replaced.has(path));
  const files: PackedFile[] = [
    ...kept.map((name) => ({ name, from: join(layout, name) })),
    ...[newConfig, newManifest].map(({ text, descriptor }) => ({ name: blobPath(descriptor.digest), text })),
    {
      name: "index.json",
      text: JSON.stringify({ ...index, manifests: [{ ...listed, ...newManifest.descriptor }] }),
    },
  ];
  return { files, digest: newManifest.descriptor.digest };
};

const blobOf = (content: object): { text: string; descriptor: Descriptor } => {
  const text = JSON.stringify(content);
  const digest = `sha256:${createHash("sha256").update(text).digest("hex")}`;
  return { text, descriptor: { digest, size: Buffer.byteLength(text) } };
};
