/**
 * `bun run mirror-bundle -- --out DIR [--release dist/release] [--images DIR] [--key FILE]`: packs a release for an isolated network and
 * signs it. See [releases](../../docs/release.md#carry-a-release-into-an-isolated-network). Without `--key` it signs with a new key that is not
 * kept. Writes the public key to `DIR.pub`. Prints one JSON object; exit code 1 if the bundle cannot be made.
 */
import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { readPrivateText } from "../../collector/files/private-files.ts";
import { publicKeyOf, writeBundle } from "./write-bundle.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    out: { type: "string" },
    release: { type: "string", default: "dist/release" },
    images: { type: "string" },
    key: { type: "string" },
  },
});

const readKey = async (path: string | undefined): Promise<KeyObject> => {
  if (path === undefined) {
    process.stderr.write(
      "mirror-bundle: without --key the bundle is signed with a key that is not kept: for trials alone\n",
    );
    return generateKeyPairSync("ed25519").privateKey;
  }
  const key = createPrivateKey(await readPrivateText(path));
  if (key.asymmetricKeyType !== "ed25519") throw new Error("--key is not an Ed25519 private key (PKCS#8 PEM)");
  return key;
};

try {
  if (values.out === undefined) throw new Error("--out DIR is required");
  const out = resolve(values.out);
  const key = await readKey(values.key);
  const images = values.images === undefined ? undefined : resolve(values.images);
  const bundle = await writeBundle(out, { release: resolve(values.release), images, key });
  const publicKey = `${out}.pub`;
  await writeFile(publicKey, publicKeyOf(key));
  console.log(JSON.stringify({ ok: true, out, public_key: publicKey, key_kept: values.key !== undefined, ...bundle }));
} catch (error) {
  const { message = "failed", details = [] } = error as { message?: string; details?: readonly string[] };
  process.stderr.write([`mirror-bundle: ${message}`, ...details].join("\n  "));
  process.stderr.write("\n");
  process.exitCode = 1;
}
