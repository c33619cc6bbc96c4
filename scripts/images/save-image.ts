import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { filesBelow } from "../bundle/build-folder.ts";
import { type PackedFile, packFiles } from "../bundle/pack-tarball.ts";
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

/** An image of one architecture in podman's storage. */
export interface StoredImage {
  reference: string;
  architecture: string;
}

/**
 * Writes an image of several architectures as an OCI layout archive to `file`, under one index, and returns its size and the digest of the
 * index, by which registries know it when it is pushed without compressing its layers anew. The same layers and configurations give the same
 * bytes: entries are sorted and have `timestamp`, and the history leaves out the comments of buildah, which name intermediate images by random
 * ids.
 */
export const saveImage = async (
  { dir, podman }: ContainerTools,
  { images, file, timestamp }: { images: readonly StoredImage[]; file: string; timestamp: Date },
): Promise<{ file: string; bytes: number; digest: string }> => {
  const layouts = await mkdtemp(join(dir, "tmp", "layouts-"));
  try {
    const files = new Map<string, PackedFile>();
    const manifests: object[] = [];
    for (const { reference, architecture } of images) {
      const layout = join(layouts, architecture);
      await podman(["save", "--quiet", "--format", "oci-dir", "--output", layout, reference]);
      const normalized = await normalize(layout);
      // Architectures share the layers of the program.
      for (const blob of normalized.files) files.set(blob.name, blob);
      manifests.push({
        mediaType: manifestType,
        ...normalized.manifest,
        platform: { architecture, os: "linux" },
      });
    }
    const index = blobOf({ schemaVersion: 2, mediaType: indexType, manifests });
    files.set(blobPath(index.descriptor.digest), {
      name: blobPath(index.descriptor.digest),
      text: index.text,
    });
    const outer = { schemaVersion: 2, manifests: [{ mediaType: indexType, ...index.descriptor }] };
    files.set("index.json", { name: "index.json", text: JSON.stringify(outer) });
    const archive = await packFiles([...files.values()], timestamp);
    await writeFile(file, archive);
    return { file, bytes: archive.length, digest: index.descriptor.digest };
  } finally {
    await rm(layouts, { recursive: true, force: true });
  }
};

const manifestType = "application/vnd.oci.image.manifest.v1+json";
const indexType = "application/vnd.oci.image.index.v1+json";

const blobPath = (digest: string) => `blobs/sha256/${digest.slice("sha256:".length)}`;

/** Returns the blobs of an OCI layout without the comments in its history, and the descriptor of its manifest then. */
const normalize = async (
  layout: string,
): Promise<{ files: PackedFile[]; manifest: Descriptor }> => {
  const readJson = async <Content>(path: string): Promise<Content> =>
    JSON.parse(await readFile(join(layout, path), "utf8"));
  const index = await readJson<Index>("index.json");
  const [listed] = index.manifests;
  if (listed === undefined) throw new Error("podman saved no manifest");
  const manifest = await readJson<Manifest>(blobPath(listed.digest));
  const config = await readJson<Config>(blobPath(manifest.config.digest));
  const history = config.history?.map(({ comment: _, ...entry }) => entry);
  const newConfig = blobOf({ ...config, history });
  const newManifest = blobOf({
    ...manifest,
    config: { ...manifest.config, ...newConfig.descriptor },
  });
  const replaced = new Set(
    [listed.digest, manifest.config.digest].map(blobPath).concat("index.json"),
  );
  const kept = (await filesBelow(layout)).filter((path) => !replaced.has(path));
  const files: PackedFile[] = [
    ...kept.map((name) => ({ name, from: join(layout, name) })),
    ...[newConfig, newManifest].map(({ text, descriptor }) => ({
      name: blobPath(descriptor.digest),
      text,
    })),
  ];
  return { files, manifest: newManifest.descriptor };
};

const blobOf = (content: object): { text: string; descriptor: Descriptor } => {
  const text = JSON.stringify(content);
  const digest = `sha256:${createHash("sha256").update(text).digest("hex")}`;
  return { text, descriptor: { digest, size: Buffer.byteLength(text) } };
};
