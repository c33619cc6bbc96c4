import { spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { appendFile, cp, mkdir, readdir, readFile, rm, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { writeImageArchive } from "#tests/support/deployment/image-archive.ts";
import {
  type SampleBundle,
  sampleReleaseKey,
  writeSampleBundle,
} from "#tests/support/deployment/mirror-bundle.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { readDocument } from "../docs-check/read-document.ts";
import { findProgram } from "../images/container-tools.ts";
import { writeChecksums } from "../release/write-release.ts";
import { minisignPublicKey } from "../release-manifest/minisign.ts";
import { signDebianRepository } from "./debian-repository.ts";
import { writeBundle } from "./write-bundle.ts";

let sample: SampleBundle;
let dir: string;
let bundle: string;
let publicKey: string;
let verify: SampleBundle["verify"];
beforeEach(async () => {
  dir = newFolder();
  sample = await writeSampleBundle(dir);
  ({ bundle, publicKey, verify } = sample);
});

it("verifies a bundle: every file that the release and the repository metadata have, and no other", async () => {
  expect(await verify()).toEqual({
    code: 0,
    stdout: "ok: version 0.2.0 of 2026-01-02, 11 files, 1 images\n",
    stderr: "",
  });
});

it("has the image of the database, too, if it is the one that Compose pins", async () => {
  const database = join(dir, "images/database.oci.tar");
  await writeImageArchive(database, { manifest: "{}" });
  const release = join(dir, "release");
  const out = join(dir, "with-database");
  const write = () =>
    writeBundle(out, {
      release,
      images: join(dir, "images"),
      key: sampleReleaseKey,
      signRepository: async () => undefined,
    });
  await expect(write()).rejects.toMatchObject({
    details: [expect.stringContaining("images/database.oci.tar is sha256:")],
  });
  const digest = hash("sha256", "{}");
  const pin = `image: \${SVC_POSTGRES_IMAGE:-docker.io/library/postgres:18.4-bookworm@sha256:${digest}}\n`;
  await writeFile(join(release, "deploy/compose.yaml"), pin);
  await writeChecksums(release);
  expect(await write()).toMatchObject({ images: 2 });
  expect(await verify(publicKey, out)).toMatchObject({ code: 0 });
});

describe("an older bundle with a valid signature", () => {
  it("is rejected after a newer one of this key has passed, and accepted on request", async () => {
    const older = await sample.write("0.1.9", "older-release", "older");
    expect(await verify(publicKey, older)).toMatchObject({
      code: 0,
      stdout: /^ok: version 0\.1\.9 of 2026-01-02, /,
    });
    for (let times = 0; times < 2; times++) expect(await verify()).toMatchObject({ code: 0 });
    const refused = await verify(publicKey, older);
    expect([refused.code, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toContain(
      "is version 0.1.9, and 0.2.0 was verified before (release-key.pub.seen)",
    );
    expect(await verify(publicKey, older, "--min-version", "0.1.9")).toMatchObject({ code: 0 });
    expect(await verify(publicKey, older)).toMatchObject({ code: 1 });
  });

  it("is rejected below --min-version, also by a machine that has seen no bundle", async () => {
    const refused = await verify(publicKey, bundle, "--min-version", "0.2.1");
    expect(refused).toMatchObject({
      code: 1,
      stdout: "",
      stderr: /is version 0\.2\.0, and --min-version is 0\.2\.1/,
    });
    expect(await readdir(dir)).not.toContain("release-key.pub.seen");
    expect(await verify(publicKey, bundle, "--min-version", "new")).toMatchObject({ code: 2 });
  });

  it("is rejected unless it is the expected version, of the expected day or later", async () => {
    const expectVersion = (version: string) =>
      verify(publicKey, bundle, "--expect-version", version);
    expect(await expectVersion("0.2.1")).toMatchObject({
      code: 1,
      stderr: /version 0\.2\.0, and --expect-version is 0\.2\.1/,
    });
    const since = (day: string) => verify(publicKey, bundle, "--not-before", day);
    expect(await since("2026-01-03")).toMatchObject({
      code: 1,
      stderr: /is of 2026-01-02, and --not-before is 2026-01-03/,
    });
    expect(await readdir(dir)).not.toContain("release-key.pub.seen");
    expect(await since("2026-01-02")).toMatchObject({ code: 0 });
    expect(await expectVersion("0.2.0")).toMatchObject({ code: 0 });
    const older = await sample.write("0.1.9", "older-release", "older");
    expect(await verify(publicKey, older, "--expect-version", "0.1.9")).toMatchObject({ code: 0 });
    for (const [flag, value] of [
      ["--expect-version", "new"],
      ["--not-before", "2026-02-30"],
      ["--not-before", "now"],
    ])
      expect(await verify(publicKey, bundle, flag ?? "", value ?? "")).toMatchObject({ code: 2 });
  });

  it("is not taken for new when the record is damaged or cannot be written", async () => {
    await writeFile(`${publicKey}.seen`, "0.2");
    expect(await verify()).toMatchObject({
      code: 1,
      stderr: /release-key\.pub\.seen is not a version/,
    });
    await unlink(`${publicKey}.seen`);
    await mkdir(`${publicKey}.seen`);
    expect(await verify()).toMatchObject({
      code: 1,
      stderr: /release-key\.pub\.seen cannot be read/,
    });
  });
});

it("docs/verify-release.md: openssl and sha256sum alone verify it, and notice a change", async () => {
  const page = "docs/verify-release.md";
  const block = readDocument(page, readFileSync(page, "utf8")).blocks.find(({ text }) =>
    text.includes("openssl"),
  );
  const check = () => spawnSync("sh", ["-euc", block?.text ?? ""], { cwd: dir, encoding: "utf8" });
  expect(check()).toMatchObject({ status: 0, stdout: "Signature Verified Successfully\n" });
  await writeFile(join(bundle, "server.tar.gz"), "Server");
  expect(check()).toMatchObject({
    status: 1,
    stdout: expect.stringContaining("server.tar.gz: FAILED"),
  });
  await appendFile(join(bundle, "SHA256SUMS"), "\n");
  expect(check()).toMatchObject({ status: 1, stdout: "Signature Verification Failure\n" });
});

describe("other tools accept the signatures, and notice a change", () => {
  const run = (command: string, ...args: string[]) =>
    spawnSync(command, args, { cwd: bundle, encoding: "utf8" });

  it.skipIf(!findProgram("minisign"))("minisign (needs minisign)", async () => {
    await writeFile(join(dir, "minisign.pub"), minisignPublicKey(sampleReleaseKey));
    const check = () => run("minisign", "-Vm", "SHA256SUMS", "-p", "../minisign.pub");
    expect(check()).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("Trusted comment: SHA256SUMS of 0.2.0"),
    });
    await appendFile(join(bundle, "SHA256SUMS"), "\n");
    expect(check().status).toBe(1);
  });

  it.skipIf(!findProgram("gpg") || !findProgram("gpgv"))(
    "gpgv, as apt runs it, on the repository (needs gpg)",
    async () => {
      await signDebianRepository(bundle, undefined);
      const check = (...files: string[]) =>
        run(
          "gpgv",
          "--keyring",
          join(bundle, "collector-fleet.gpg"),
          ...files.map((file) => `dists/stable/${file}`),
        ).status;
      expect([check("InRelease"), check("Release.gpg", "Release")]).toEqual([0, 0]);
      for (const file of ["InRelease", "Release"]) {
        const path = join(bundle, "dists/stable", file);
        await writeFile(
          path,
          (await readFile(path, "utf8")).replace("Suite: stable", "Suite: testing"),
        );
      }
      expect([check("InRelease"), check("Release.gpg", "Release")]).toEqual([1, 1]);
    },
  );
});

describe("writes no bundle", () => {
  const write = (images?: string) =>
    writeBundle(join(dir, "again"), {
      release: join(dir, "release"),
      images,
      key: sampleReleaseKey,
      signRepository: async () => undefined,
    });

  it("without the images of the manifest, with others, or with an archive that is damaged", async () => {
    await expect(write()).rejects.toMatchObject({
      details: [expect.stringContaining("core: no archive of sha256:")],
    });
    await writeImageArchive(join(dir, "images/other.tar"), { digest: "0".repeat(64) });
    await expect(write(join(dir, "images"))).rejects.toThrow(
      "other.tar is not the OCI layout archive of one image",
    );
    await writeImageArchive(join(dir, "images/other.tar"), { blobName: "0".repeat(64) });
    await expect(write(join(dir, "images"))).rejects.toThrow(
      "has a blob that is not what its name says",
    );
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
    await expect(write(join(dir, "images"))).rejects.toThrow(
      "server.tar.gz is not what the release built",
    );
    expect((await readdir(dir)).filter((name) => name.startsWith("again"))).toEqual([]);
  });
});
