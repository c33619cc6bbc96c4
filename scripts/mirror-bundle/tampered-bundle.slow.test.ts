import { generateKeyPairSync, sign } from "node:crypto";
import {
  appendFile,
  cp,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  unlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { writeImageArchive } from "#tests/support/deployment/image-archive.ts";
import {
  type SampleBundle,
  sampleReleaseKey,
  writeSampleBundle,
} from "#tests/support/deployment/mirror-bundle.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { writeChecksums } from "../release/write-release.ts";
import { runManifestCommand } from "../release-manifest/command-line.ts";
import { signMinisign } from "../release-manifest/minisign.ts";
import { signProvenance } from "../release-manifest/provenance.ts";
import { publicKeyOf } from "./write-bundle.ts";

const dir = newFolder();
let sample: SampleBundle;
beforeAll(async () => {
  sample = await writeSampleBundle(dir);
});

/** A copy of the sample, which the test changes. */
let bundle: string;
beforeEach(async () => {
  bundle = await mkdtemp(join(dir, "copy-"));
  await cp(sample.bundle, bundle, { recursive: true });
});
const verify = (key = sample.publicKey) => sample.verify(key, bundle);

describe("names what differs, with exit code 1", () => {
  const at = (path: string) => join(bundle, path);
  const image = "images/svc-core-0.2.0.oci.tar";
  const otherKey = generateKeyPairSync("ed25519").privateKey;
  const edit = async (path: string, change: (text: string) => string) =>
    writeFile(at(path), change(await readFile(at(path), "utf8")));
  /** Signs the bundle as it is, as somebody would who has the key. */
  const signAgain = async (key = sampleReleaseKey) => {
    await writeChecksums(bundle);
    await edit("SHA256SUMS", (text) => text.replace(/^.* {2}SHA256SUMS\..*\n/gm, ""));
    const sums = await readFile(at("SHA256SUMS"));
    await writeFile(at("SHA256SUMS.sig"), sign(null, sums, key));
    await writeFile(at("SHA256SUMS.minisig"), signMinisign(sums, key, "again"));
  };
  const replaceByLink = async (path: string) => {
    await rename(at(path), `${bundle}-moved`);
    await symlink(`${bundle}-moved`, at(path));
  };
  const notSigned = "SHA256SUMS.sig is not the signature of SHA256SUMS";
  const notMinisigned = "SHA256SUMS.minisig is not the signature of SHA256SUMS";
  const rewritten: Record<string, [string, () => Promise<unknown>]> = {
    "one byte changed": [
      "server.tar.gz is changed",
      () => writeFile(at("server.tar.gz"), "Server"),
    ],
    "one byte added": ["LICENSES.md is changed", () => appendFile(at("LICENSES.md"), "x")],
    "a file emptied": ["server.tar.gz is changed", () => truncate(at("server.tar.gz"))],
    "an SBOM changed": [
      "sboms/server.json is changed",
      () => edit("sboms/server.json", (text) => `${text} `),
    ],
    "a unit changed": [
      "deploy/packaging/systemd/svc-server.service is changed",
      () => appendFile(at("deploy/packaging/systemd/svc-server.service"), "User=root\n"),
    ],
    "the image of the database changed": [
      "deploy/compose.yaml is changed",
      () => writeFile(at("deploy/compose.yaml"), "image: other"),
    ],
    "a document changed": [
      "docs/index.html is changed",
      () => appendFile(at("docs/index.html"), "<script>"),
    ],
    "the manifest changed": [
      "release-manifest.json is changed",
      () => edit("release-manifest.json", (text) => text.replace("0.2.0", "0.2.1")),
    ],
    "the provenance changed": [
      "provenance.json is changed",
      () => edit("provenance.json", (text) => text.replace("c0ffee", "c0ffef")),
    ],
    "the signed provenance changed": [
      "provenance.intoto.jsonl is changed",
      () => edit("provenance.intoto.jsonl", (text) => text.replace('"sig":"', '"sig":"A')),
    ],
    "a byte of the repository metadata changed": [
      "dists/stable/Release is changed",
      () => appendFile(at("dists/stable/Release"), " "),
    ],
    "a file added": ["sboms/other.json is unknown", () => writeFile(at("sboms/other.json"), "")],
    "an image added": [
      "images/other.tar is unknown",
      () => writeImageArchive(at("images/other.tar")),
    ],
    "another signature added": [
      "SHA256SUMS.asc is unknown",
      () => writeFile(at("SHA256SUMS.asc"), ""),
    ],
    "a hidden file added": [".hidden is unknown", () => writeFile(at(".hidden"), "")],
    "an empty folder added": ["empty/ is an unknown, empty folder", () => mkdir(at("empty"))],
    "a file with a strange name added": ["a\\nb is unknown", () => writeFile(at("a\nb"), "")],
    "a file removed": ["sboms/server.json is missing", () => unlink(at("sboms/server.json"))],
    "a folder removed": ["docs/index.html is missing", () => rm(at("docs"), { recursive: true })],
    "a file renamed": [
      "server.tar.gz is missing",
      () => rename(at("server.tar.gz"), at("server.tgz")),
    ],
    "two files exchanged": [
      "LICENSES.md is changed",
      async () => {
        await rename(at("LICENSES.md"), `${bundle}-moved`);
        await rename(at("server.tar.gz"), at("LICENSES.md"));
        await rename(`${bundle}-moved`, at("server.tar.gz"));
      },
    ],
    "a file replaced by a folder": [
      "server.tar.gz/ is an unknown, empty folder",
      async () => {
        await unlink(at("server.tar.gz"));
        await mkdir(at("server.tar.gz"));
      },
    ],
    "an image removed": [`${image} is missing`, () => unlink(at(image))],
    "an image changed": [`${image} is changed`, () => appendFile(at(image), "x")],
    "a file replaced by a link to the same": [
      "server.tar.gz is not a regular file",
      () => replaceByLink("server.tar.gz"),
    ],
    "a folder replaced by a link to the same": ["sboms is unknown", () => replaceByLink("sboms")],
    "the checksums replaced by a link to the same": [
      "SHA256SUMS is a symbolic link",
      () => replaceByLink("SHA256SUMS"),
    ],
    "a digest changed": [
      notSigned,
      async () => {
        await writeFile(at("server.tar.gz"), "Server");
        await writeChecksums(bundle);
      },
    ],
    "a line of the checksums removed": [
      notSigned,
      () => edit("SHA256SUMS", (text) => text.replace(/^.*\n/, "")),
    ],
    "the ends of the lines of the checksums changed": [
      notSigned,
      () => edit("SHA256SUMS", (text) => text.replaceAll("\n", "\r\n")),
    ],
    "the checksums removed": ["SHA256SUMS is missing", () => unlink(at("SHA256SUMS"))],
    "the signature removed": ["SHA256SUMS.sig is missing", () => unlink(at("SHA256SUMS.sig"))],
    "the signature cut": [
      notSigned,
      async () =>
        writeFile(at("SHA256SUMS.sig"), (await readFile(at("SHA256SUMS.sig"))).subarray(0, 63)),
    ],
    "signed with another key": [notSigned, () => signAgain(otherKey)],
    "minisign's signature removed": [
      "SHA256SUMS.minisig is missing",
      () => unlink(at("SHA256SUMS.minisig")),
    ],
    "minisign's trusted comment changed": [
      notMinisigned,
      () =>
        edit("SHA256SUMS.minisig", (text) =>
          text.replace("SHA256SUMS of 0.2.0", "SHA256SUMS of 0.2.1"),
        ),
    ],
    "minisign's signature by another key": [
      notMinisigned,
      async () =>
        writeFile(
          at("SHA256SUMS.minisig"),
          signMinisign(await readFile(at("SHA256SUMS")), otherKey, "x"),
        ),
    ],
    "signed again: an image that the manifest does not list": [
      "images/other.tar is sha256:",
      async () => {
        await writeImageArchive(at("images/other.tar"), { manifest: "{}" });
        await signAgain();
      },
    ],
    "signed again: an artifact that the manifest describes otherwise": [
      "release-manifest.json does not describe these files",
      async () => {
        await writeFile(at("server.tar.gz"), "Server");
        await signAgain();
      },
    ],
    "signed again: the provenance of other artifacts": [
      "provenance.json is of other artifacts than the manifest",
      async () => {
        await edit("provenance.json", (text) => text.replace("server.tar.gz", "client.tar.gz"));
        await writeFile(
          at("provenance.intoto.jsonl"),
          signProvenance(await readFile(at("provenance.json")), sampleReleaseKey),
        );
        await signAgain();
      },
    ],
    "signed again: provenance that another key signed": [
      "provenance.intoto.jsonl is not the signed provenance.json",
      async () => {
        await writeFile(
          at("provenance.intoto.jsonl"),
          signProvenance(await readFile(at("provenance.json")), otherKey),
        );
        await signAgain();
      },
    ],
    "signed again: without a date": [
      "dists/stable/Release has no date",
      async () => {
        await edit("dists/stable/Release", (text) => text.replace(/^Date: .*\n/m, ""));
        await signAgain();
      },
    ],
  };
  it("of more than 30 kinds", () => expect(Object.keys(rewritten).length).toBeGreaterThan(30));

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
    await writeFile(
      join(dir, "private"),
      sampleReleaseKey.export({ type: "pkcs8", format: "pem" }),
    );
    expect(await verify(join(dir, "private"))).toMatchObject({
      code: 1,
      stderr: /is not an Ed25519 public key/,
    });
    expect(await verify(join(dir, "absent"))).toMatchObject({ code: 1 });
    expect(
      await runManifestCommand(["verify", bundle], {
        stdout: { write: () => 0 },
        stderr: { write: () => 0 },
      }),
    ).toBe(2);
  });
});
