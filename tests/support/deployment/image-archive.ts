import { hash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { pack } from "tar-stream";

const imageManifest = JSON.stringify({ schemaVersion: 2 });
const digestOf = (text: string) => hash("sha256", text);

/** The digest of the image that `writeImageArchive` writes. */
export const sampleImageDigest = digestOf(imageManifest);

/** Writes the OCI layout archive of one image; with another name for its blob, or digest in its index, a damaged one. */
export const writeImageArchive = async (
  path: string,
  { manifest = imageManifest, blobName = digestOf(manifest), digest = digestOf(manifest) } = {},
) => {
  const archive = pack();
  archive.entry({ name: "oci-layout" }, '{"imageLayoutVersion":"1.0.0"}');
  archive.entry({ name: `blobs/sha256/${blobName}` }, manifest);
  archive.entry(
    { name: "index.json" },
    JSON.stringify({ manifests: [{ digest: `sha256:${digest}` }] }),
  );
  archive.finalize();
  await writeFile(path, await buffer(archive));
};
