import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { extract } from "tar-stream";
import { ReleaseFailure } from "./release-failure.ts";

const indexBytesMax = 1 << 20;
const blobFolder = "blobs/sha256/";

/**
 * Returns the digest (64 hex) by which the image in an OCI layout archive is pulled. Throws `ReleaseFailure` (1) unless every blob has the
 * digest that it is named after and the image is there. `name` is how messages call the archive.
 */
export const imageDigest = async (path: string, name: string): Promise<string> => {
  const refuse = (fault: string) => new ReleaseFailure("failed", `${name} ${fault}`);
  const archive = extract();
  const source = createReadStream(path);
  source.on("error", (error) => archive.destroy(error));
  source.pipe(archive);
  const blobs = new Set<string>();
  let index: Buffer | undefined;
  try {
    for await (const entry of archive) {
      const entryName = entry.header.name.replace(/^\.\//, "");
      const isIndex = entryName === "index.json";
      if (isIndex && (entry.header.size ?? 0) > indexBytesMax)
        throw refuse("has an index.json that is too large");
      const { digest, kept } = await readEntry(entry as AsyncIterable<Buffer>, isIndex);
      if (isIndex) index = kept;
      if (entry.header.type !== "file" || !entryName.startsWith(blobFolder)) continue;
      if (entryName !== `${blobFolder}${digest}`)
        throw refuse(`has a blob that is not what its name says: ${entryName}`);
      blobs.add(digest);
    }
  } catch (error) {
    throw error instanceof ReleaseFailure ? error : refuse("is not a readable OCI layout archive");
  } finally {
    source.destroy();
  }
  const digest = index === undefined ? undefined : onlyDigest(index);
  if (digest === undefined || !blobs.has(digest))
    throw refuse("is not the OCI layout archive of one image");
  return digest;
};

const readEntry = async (entry: AsyncIterable<Buffer>, keeps: boolean) => {
  const hash = createHash("sha256");
  const kept: Buffer[] = [];
  for await (const chunk of entry) {
    hash.update(chunk);
    if (keeps) kept.push(chunk);
  }
  return { digest: hash.digest("hex"), kept: Buffer.concat(kept) };
};

const onlyDigest = (index: Buffer): string | undefined => {
  try {
    const { manifests }: { manifests?: { digest?: unknown }[] } = JSON.parse(
      index.toString("utf8"),
    );
    const [only, ...others] = manifests ?? [];
    const found =
      typeof only?.digest === "string"
        ? /^sha256:([0-9a-f]{64})$/.exec(only.digest)?.[1]
        : undefined;
    return others.length === 0 ? found : undefined;
  } catch {
    return undefined;
  }
};
