import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { extract } from "tar-stream";

/** What the archive of an image contains for one architecture. */
export interface ImageContents {
  /** `amd64` or `arm64`. */
  architecture: string;
  /** The digest of its manifest (hex). */
  sha256: string;
  /** The commit that it says it was built from; null without the label. */
  revision: string | null;
  /** The SHA-256 digest (hex) of each regular file, by its path without a leading slash. */
  files: ReadonlyMap<string, string>;
  /** The Debian packages that it lists, each as the fields of its paragraph in dpkg's status. */
  debianPackages: ReadonlyArray<Readonly<Record<string, string>>>;
  /** Of /etc/os-release: `debian-12`. */
  distribution: string;
}

const statusFolder = "var/lib/dpkg/status.d/";
const releaseFile = "etc/os-release";
const removedPrefix = ".wh.";

/** The parts of an image's configuration that are used here. */
interface ImageConfig {
  architecture?: string;
  config?: { Labels?: Record<string, string> };
}

/** A manifest of one architecture, or an index of several. */
type ImageManifest =
  | { manifests: readonly { digest: string }[] }
  | { config: { digest: string }; layers: readonly { digest: string }[] };

/** Reads the archive of an image, whose blobs are verified already, for each of its architectures. Reads all of it into memory. */
export const readImageContents = async (path: string): Promise<ImageContents[]> => {
  const archive = new Map<string, Buffer>();
  for await (const { name, content } of filesIn(createReadStream(path))) archive.set(name, content);
  const blob = (digest: string): Buffer => {
    const found = archive.get(`blobs/${digest.replace(":", "/")}`);
    if (found === undefined) throw new Error(`${path} has no blob ${digest}`);
    return found;
  };
  const json = <Content>(bytes: Buffer | undefined): Content =>
    JSON.parse(bytes?.toString("utf8") ?? "null");
  const read = async (digest: string): Promise<ImageContents[]> => {
    const manifest = json<ImageManifest>(blob(digest));
    if ("manifests" in manifest)
      return (await Promise.all(manifest.manifests.map((each) => read(each.digest)))).flat();
    const { architecture = "unknown", config } = json<ImageConfig>(blob(manifest.config.digest));
    const revision = config?.Labels?.["org.opencontainers.image.revision"] ?? null;
    const layers = manifest.layers.map((layer) => unpacked(blob(layer.digest)));
    const sha256 = digest.slice("sha256:".length);
    return [{ architecture, sha256, revision, ...(await readLayers(layers, path)) }];
  };
  const { manifests } = json<{ manifests: { digest: string }[] }>(archive.get("index.json"));
  return read(manifests[0]?.digest ?? "");
};

const readLayers = async (
  layers: readonly Buffer[],
  path: string,
): Promise<Pick<ImageContents, "files" | "debianPackages" | "distribution">> => {
  const files = new Map<string, string>();
  const texts = new Map<string, string>();
  for (const layer of layers)
    for await (const { name, content } of filesIn(layer)) {
      if (name.slice(name.lastIndexOf("/") + 1).startsWith(removedPrefix))
        throw new Error(`${path} has a layer that removes files: its contents cannot be listed`);
      files.set(name, createHash("sha256").update(content).digest("hex"));
      if (name.startsWith(statusFolder) || name === releaseFile)
        texts.set(name, content.toString("utf8"));
    }
  const status = [...texts]
    .filter(([name]) => name.startsWith(statusFolder))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const release = Object.fromEntries(
    Array.from(
      (texts.get(releaseFile) ?? "").matchAll(/^(\w+)="?([^"\n]*)/gm),
      ([, key = "", value = ""]) => [key, value],
    ),
  );
  return {
    files,
    debianPackages: status.map(([, text]) => readParagraph(text)),
    distribution: `${release.ID ?? "unknown"}-${release.VERSION_ID ?? "unknown"}`,
  };
};

/** The regular files of a tar archive, one after the other. */
const filesIn = async function* (
  source: NodeJS.ReadableStream | Buffer,
): AsyncGenerator<{ name: string; content: Buffer }> {
  const archive = extract();
  if (Buffer.isBuffer(source)) archive.end(source);
  else source.on("error", (error) => archive.destroy(error)).pipe(archive);
  for await (const entry of archive) {
    const content = await buffer(entry);
    if (entry.header.type === "file")
      yield { name: entry.header.name.replace(/^\.?\//, ""), content };
  }
};

const gzipMagic = 0x1f8b;

const unpacked = (layer: Buffer): Buffer =>
  layer.readUInt16BE(0) === gzipMagic ? gunzipSync(layer) : layer;

/** Returns the fields of one line of a paragraph in Debian's control format. */
const readParagraph = (text: string): Record<string, string> =>
  Object.fromEntries(
    Array.from(text.matchAll(/^([A-Za-z-]+): ?(.*)$/gm), ([, key = "", value = ""]) => [
      key,
      value,
    ]),
  );
