import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  appendFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { sampleImageDigest, writeImageArchive } from "../../tests/support/image-archive.ts";
import { readDocument } from "../docs-check/read-document.ts";
import { writeChecksums } from "../release/write-release.ts";
import { runManifestCommand } from "../release-manifest/command-line.ts";
import { createManifest, printManifest } from "../release-manifest/release-manifest.ts";
import { publicKeyOf, writeBundle } from "./write-bundle.ts";

const { privateKey } = generateKeyPairSync("ed25519");

let dir: string;
let bundle: string;
let publicKey: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "mirror-bundle-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  publicKey = join(dir, "release-key.pub");
  await writeFile(publicKey, publicKeyOf(privateKey));
  await mkdir(join(dir, "images"));
  await writeImageArchive(join(dir, "images/svc-core-0.2.0.oci.tar"));
  bundle = await writeSample("0.2.0", "release", "mirror");
});

/** Writes a release and its bundle into folders of `dir`; returns the bundle's. */
const writeSample = async (version: string, releaseName: string, name: string): Promise<string> => {
  const release = join(dir, releaseName);
  await mkdir(join(release, "sboms"), { recursive: true });
  await writeFile(join(release, "server.tar.gz"), "server");
  await writeFile(join(release, "LICENSES.md"), "licenses");
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
  await writeChecksums(release);
  // Nobody listed it, so it is not signed.
  await writeFile(join(release, "stray"), "x");
  await writeBundle(join(dir, name), { release, images: join(dir, "images"), key: privateKey });
  return join(dir, name);
};

const verify = async (key = publicKey, folder = bundle, ...flags: string[]) => {
  const printed = { stdout: "", stderr: "" };
  const sink = (name: keyof typeof printed) => ({ write: (text: string) => (printed[name] += text) });
  const args = ["verify", folder, "--key", key, ...flags];
  return { code: await runManifestCommand(args, { stdout: sink("stdout"), stderr: sink("stderr") }), ...printed };
};

it("verifies a bundle: every file that the release and the repository metadata have, and no other", async () => {
  expect(await verify()).toEqual({
    code: 0,
    stdout: "ok: version 0.2.0 of 2026-01-02, 8 files, 1 images\n",
    stderr: "",
  });
});

describe("an older bundle with a valid signature", () => {
  it("is rejected after a newer one of this key has passed, and accepted on request", async () => {
    const older = await writeSample("0.1.9", "older-release", "older");
    expect(await verify(publicKey, older)).toMatchObject({ code: 0, stdout: /^ok: version 0\.1\.9 of 2026-01-02, / });
    for (let times = 0; times < 2; times++) expect(await verify()).toMatchObject({ code: 0 });
    const refused = await verify(publicKey, older);
    expect([refused.code, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toContain("is version 0.1.9, and 0.2.0 was verified before (release-key.pub.seen)");
    expect(await verify(publicKey, older, "--min-version", "0.1.9")).toMatchObject({ code: 0 });
    expect(await verify(publicKey, older)).toMatchObject({ code: 1 });
  });

  it("is rejected below --min-version, also by a machine that has seen no bundle", async () => {
    const refused = await verify(publicKey, bundle, "--min-version", "0.2.1");
    expect(refused).toMatchObject({ code: 1, stdout: "", stderr: /is version 0\.2\.0, and --min-version is 0\.2\.1/ });
    expect(await readdir(dir)).not.toContain("release-key.pub.seen");
    expect(await verify(publicKey, bundle, "--min-version", "new")).toMatchObject({ code: 2 });
  });

  it("is not taken for new when the record is damaged or cannot be written", async () => {
    await writeFile(`${publicKey}.seen`, "0.2");
    expect(await verify()).toMatchObject({ code: 1, stderr: /release-key\.pub\.seen is not a version/ });
    await unlink(`${publicKey}.seen`);
    await mkdir(`${publicKey}.seen`);
    expect(await verify()).toMatchObject({ code: 1, stderr: /release-key\.pub\.seen cannot be read/ });
  });
});

it("docs/verify-release.md: openssl and sha256sum alone verify it, and notice a change", async () => {
  const page = "docs/verify-release.md";
  const block = readDocument(page, readFileSync(page, "utf8")).blocks.find(({ text }) => text.includes("openssl"));
  const check = () => spawnSync("sh", ["-euc", block?.text ?? ""], { cwd: dir, encoding: "utf8" });
  expect(check()).toMatchObject({ status: 0, stdout: "Signature Verified Successfully\n" });
  await writeFile(join(bundle, "server.tar.gz"), "Server");
  expect(check()).toMatchObject({ status: 1, stdout: expect.stringContaining("server.tar.gz: FAILED") });
  await appendFile(join(bundle, "SHA256SUMS"), "\n");
  expect(check()).toMatchObject({ status: 1, stdout: "Signature Verification Failure\n" });
});

describe("names what differs, with exit code 1", () => {
  const rewritten: Record<string, [string, () => Promise<unknown>]> = {
    "one byte changed": ["server.tar.gz is changed", () => writeFile(join(bundle, "server.tar.gz"), "Server")],
    "one byte added": ["LICENSES.md is changed", () => appendFile(join(bundle, "LICENSES.md"), "x")],
    "a byte of the repository metadata changed": ["Release is changed", () => appendFile(join(bundle, "Release"), " ")],
    "a file added": ["sboms/other.json is unknown", () => writeFile(join(bundle, "sboms/other.json"), "")],
    "a hidden file added": [".hidden is unknown", () => writeFile(join(bundle, ".hidden"), "")],
    "an empty folder added": ["empty/ is an unknown, empty folder", () => mkdir(join(bundle, "empty"))],
    "a file with a strange name added": ["a\\nb is unknown", () => writeFile(join(bundle, "a\nb"), "")],
    "a file removed": ["sboms/server.json is missing", () => unlink(join(bundle, "sboms/server.json"))],
    "an image removed": [
      "images/svc-core-0.2.0.oci.tar is missing",
      () => unlink(join(bundle, "images/svc-core-0.2.0.oci.tar")),
    ],
    "a file replaced by a link to the same": [
      "server.tar.gz is not a regular file",
      async () => {
        await rename(join(bundle, "server.tar.gz"), join(dir, "moved"));
        await symlink(join(dir, "moved"), join(bundle, "server.tar.gz"));
      },
    ],
    "a folder replaced by a link to the same": [
      "sboms is unknown",
      async () => {
        await rename(join(bundle, "sboms"), join(dir, "moved"));
        await symlink(join(dir, "moved"), join(bundle, "sboms"));
      },
    ],
    "a digest changed": [
      "SHA256SUMS.sig is not the signature of SHA256SUMS",
      async () => {
        await writeFile(join(bundle, "server.tar.gz"), "Server");
        await writeChecksums(bundle);
      },
    ],
    "the signature removed": ["SHA256SUMS.sig is missing", () => unlink(join(bundle, "SHA256SUMS.sig"))],
    "the signature cut": [
      "SHA256SUMS.sig is not the signature",
      async () => {
        const signature = await readFile(join(bundle, "SHA256SUMS.sig"));
        await writeFile(join(bundle, "SHA256SUMS.sig"), signature.subarray(0, 63));
      },
    ],
  };
  it.each(Object.keys(rewritten))("%s", async (name) => {
    const [message, change] = rewritten[name] ?? ["", async () => undefined];
    await change();
    const { code, stdout, stderr } = await verify();
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(message);
  });

  it("several at once, each of them", async () => {
    await writeFile(join(bundle, "server.tar.gz"), "Server");
    await writeFile(join(bundle, "added"), "");
    await unlink(join(bundle, "LICENSES.md"));
    const { stderr } = await verify();
    for (const fault of ["server.tar.gz is changed", "added is unknown", "LICENSES.md is missing"])
      expect(stderr).toContain(fault);
  });

  it("another key, a private key, and no key", async () => {
    await writeFile(join(dir, "other.pub"), publicKeyOf(generateKeyPairSync("ed25519").privateKey));
    expect(await verify(join(dir, "other.pub"))).toMatchObject({ code: 1, stderr: /by this key/ });
    await writeFile(join(dir, "private"), privateKey.export({ type: "pkcs8", format: "pem" }));
    expect(await verify(join(dir, "private"))).toMatchObject({ code: 1, stderr: /is not an Ed25519 public key/ });
    expect(await verify(join(dir, "absent"))).toMatchObject({ code: 1 });
    expect(
      await runManifestCommand(["verify", bundle], { stdout: { write: () => 0 }, stderr: { write: () => 0 } }),
    ).toBe(2);
  });
});

describe("writes no bundle", () => {
  const write = (images?: string) =>
    writeBundle(join(dir, "again"), { release: join(dir, "release"), images, key: privateKey });

  it("without the images of the manifest, with others, or with an archive that is damaged", async () => {
    await expect(write()).rejects.toMatchObject({ details: [expect.stringContaining("core: no archive of sha256:")] });
    await writeImageArchive(join(dir, "images/other.tar"), { digest: "0".repeat(64) });
    await expect(write(join(dir, "images"))).rejects.toThrow("other.tar is not the OCI layout archive of one image");
    await writeImageArchive(join(dir, "images/other.tar"), { blobName: "0".repeat(64) });
    await expect(write(join(dir, "images"))).rejects.toThrow("has a blob that is not what its name says");
    await writeFile(join(dir, "images/other.tar"), "no archive".repeat(100));
    await expect(write(join(dir, "images"))).rejects.toThrow("other.tar is not");
  });

  it("of a release that was changed after it was built, nor over something else", async () => {
    expect(await readdir(dir)).not.toContain("again");
    await cp(join(dir, "release"), join(dir, "again"), { recursive: true });
    await unlink(join(dir, "again/SHA256SUMS"));
    await expect(write(join(dir, "images"))).rejects.toThrow("has something else in it");
    await rm(join(dir, "again"), { recursive: true });
    await writeFile(join(dir, "release/server.tar.gz"), "Server");
    await expect(write(join(dir, "images"))).rejects.toThrow("server.tar.gz is not what the release built");
    expect((await readdir(dir)).filter((name) => name.startsWith("again"))).toEqual([]);
  });
});
