import { generateKeyPairSync } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { publicKeyOf, writeBundle } from "#scripts/mirror-bundle/write-bundle.ts";
import { writeChecksums } from "#scripts/release/write-release.ts";
import { runManifestCommand } from "#scripts/release-manifest/command-line.ts";
import { printProvenance } from "#scripts/release-manifest/provenance.ts";
import { createManifest, printManifest } from "#scripts/release-manifest/release-manifest.ts";
import { sampleImageDigest, writeImageArchive } from "./image-archive.ts";

/** The key that signs sample bundles. */
export const { privateKey: sampleReleaseKey } = generateKeyPairSync("ed25519");

/** Files of a release that the manifest does not list. */
const unlistedFiles = [
  "docs/index.html",
  "deploy/compose.yaml",
  "deploy/packaging/systemd/svc-server.service",
];

/** A mirror bundle of one artifact and one image, beside its `release`, its `images` and the public key. */
export type SampleBundle = Awaited<ReturnType<typeof writeSampleBundle>>;

/** Writes a sample bundle of 0.2.0 below `dir`. */
export const writeSampleBundle = async (dir: string) => {
  const publicKey = join(dir, "release-key.pub");
  await writeFile(publicKey, publicKeyOf(sampleReleaseKey));
  await mkdir(join(dir, "images"));
  await writeImageArchive(join(dir, "images/svc-core-0.2.0.oci.tar"));
  const write = async (version: string, releaseName: string, name: string) => {
    const release = join(dir, releaseName);
    await writeSampleRelease(release, version);
    const sources = { release, images: join(dir, "images"), key: sampleReleaseKey };
    await writeBundle(join(dir, name), { ...sources, signRepository: async () => undefined });
    return join(dir, name);
  };
  const bundle = await write("0.2.0", "release", "mirror");
  const verify = async (key: string = publicKey, folder: string = bundle, ...flags: string[]) => {
    const printed = { stdout: "", stderr: "" };
    const sink = (name: keyof typeof printed) => ({
      write: (text: string) => (printed[name] += text),
    });
    const args = ["verify", folder, "--key", key, ...flags];
    return {
      code: await runManifestCommand(args, { stdout: sink("stdout"), stderr: sink("stderr") }),
      ...printed,
    };
  };
  return {
    bundle,
    publicKey,
    /** Writes another version and its bundle into folders of `dir`; returns the bundle's. */
    write,
    /** Runs `svc-release-manifest verify`. */
    verify,
  };
};

const writeSampleRelease = async (release: string, version: string) => {
  await mkdir(join(release, "sboms"), { recursive: true });
  await writeFile(join(release, "server.tar.gz"), "server");
  await writeFile(join(release, "LICENSES.md"), "licenses");
  for (const path of unlistedFiles) {
    await mkdir(join(release, dirname(path)), { recursive: true });
    await writeFile(join(release, path), path);
  }
  await writeFile(
    join(release, "sboms/server.json"),
    JSON.stringify({ metadata: { timestamp: "2026-01-02T03:04:05.000Z" } }),
  );
  const manifest = await createManifest(release, {
    version,
    artifacts: [{ path: "server.tar.gz", kind: "bundle", platform: "any" }],
    sboms: [{ path: "sboms/server.json", format: "CycloneDX 1.6", for: "server.tar.gz" }],
    images: [{ name: "core", ref: `svc-core:0.2.0@sha256:${sampleImageDigest}` }],
  });
  await writeFile(join(release, "release-manifest.json"), printManifest(manifest));
  await writeFile(
    join(release, "provenance.json"),
    printProvenance(manifest, { commit: "c0ffee", files: {} }),
  );
  await writeChecksums(release);
  // Nobody listed it, so it is not signed.
  await writeFile(join(release, "stray"), "x");
};
