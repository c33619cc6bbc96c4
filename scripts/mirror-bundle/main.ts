/**
 * `bun run mirror-bundle -- --out DIR [--release dist/release] [--images DIR] [--key FILE] [--repository-key FILE]`: packs a release for an
 * isolated network and signs it ([releases](../../docs/release.md#what-mirror-bundle-adds)). Without a key it signs with a new one that is not
 * kept. Writes the public key to `DIR.pub`, and as minisign reads it to `DIR.minisign.pub`. Prints one JSON object; exit code 1 if the bundle
 * cannot be made.
 */
import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { readPrivateText } from "#collector/files/private-files.ts";
import { readCommandOptions } from "../read-command-options.ts";
import { minisignPublicKey } from "../release-manifest/minisign.ts";
import { signDebianRepository } from "./debian-repository.ts";
import { publicKeyOf, writeBundle } from "./write-bundle.ts";

const values = readCommandOptions({
  out: null,
  release: "dist/release",
  images: null,
  key: null,
  "repository-key": null,
});

/** Where a private key is missing. */
const warnOfTrial = (flag: string, what: string) =>
  console.error(
    `mirror-bundle: without ${flag} ${what} is signed with a key that is not kept: for trials alone`,
  );

const readKey = async (path: string | undefined): Promise<KeyObject> => {
  if (path === undefined) {
    warnOfTrial("--key", "the bundle");
    return generateKeyPairSync("ed25519").privateKey;
  }
  const key = createPrivateKey(await readPrivateText(path));
  if (key.asymmetricKeyType !== "ed25519")
    throw new Error("--key is not an Ed25519 private key (PKCS#8 PEM)");
  return key;
};

try {
  if (values.out === undefined) throw new Error("--out DIR is required");
  const out = resolve(values.out);
  const key = await readKey(values.key);
  const images = values.images === undefined ? undefined : resolve(values.images);
  const repositoryKey = values["repository-key"];
  if (repositoryKey === undefined) warnOfTrial("--repository-key", "the Debian repository");
  // Refuses a file that others may read.
  else await readPrivateText(repositoryKey);
  const signRepository = (folder: string) =>
    signDebianRepository(folder, repositoryKey === undefined ? undefined : resolve(repositoryKey));
  const bundle = await writeBundle(out, {
    release: resolve(values.release),
    images,
    key,
    signRepository,
  });
  const publicKey = `${out}.pub`;
  await writeFile(publicKey, publicKeyOf(key));
  await writeFile(`${out}.minisign.pub`, minisignPublicKey(key));
  const keptKeys = {
    key_kept: values.key !== undefined,
    repository_key_kept: repositoryKey !== undefined,
  };
  console.log(JSON.stringify({ ok: true, out, public_key: publicKey, ...keptKeys, ...bundle }));
} catch (error) {
  const { message = "failed", details = [] } = error as {
    message?: string;
    details?: readonly string[];
  };
  console.error([`mirror-bundle: ${message}`, ...details].join("\n  "));
  process.exitCode = 1;
}
