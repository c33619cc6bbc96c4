import { hash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { beforeEach, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { type PackedFile, packFiles } from "../bundle/pack-tarball.ts";
import { printNotices } from "../licenses/licenses.ts";
import { nodePackages } from "../licenses/program-packages.ts";
import type { BuiltArtifact } from "./build-artifacts.ts";
import { describeImages } from "./describe-images.ts";
import { createSbom } from "./sbom.ts";

const commit = "c0ffee";
const program = { name: "dist/svc-collector/main.mjs", text: "the program" };
const bundle: BuiltArtifact = {
  path: "svc-collector-0.2.0.tar.gz",
  kind: "bundle",
  platform: "any",
  packages: [],
  files: [
    program,
    { name: "dist/svc-collector/main.mjs.map", text: "{}" },
    { name: "THIRD-PARTY-NOTICES", text: "" },
  ],
};
const status = (name: string, version = "2.36-9+deb12u13") =>
  `Package: ${name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: ${version}\nDescription: a library\n of Debian\n`;

let archive: string;
let usual: Record<string, string>;
beforeEach(async () => {
  const dir = newFolder();
  archive = join(dir, "svc-collector-0.2.0.oci.tar");
  usual = {
    "usr/local/bin/node": "a program",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_ID="12"\n',
    "var/lib/dpkg/status.d/libc6": status("libc6"),
    "opt/svc/dist/svc-collector/main.mjs": "the program",
    "opt/svc/THIRD-PARTY-NOTICES": printNotices(await nodePackages()),
  };
});

/** Writes the archive of an image with these files in two layers, of which one is compressed, and describes it. */
const describeImage = async (
  files: Record<string, string>,
  { revision = commit, architectures = ["amd64"] } = {},
) => {
  const dir = join(archive, "..");
  const packed: PackedFile[] = [];
  const add = async (content: Buffer | string) => {
    const digest = hash("sha256", content);
    await writeFile(join(dir, digest), content);
    packed.push({ name: `blobs/sha256/${digest}`, from: join(dir, digest) });
    return { digest: `sha256:${digest}` };
  };
  const entries = Object.entries(files).map(([name, text]) => ({ name, text }));
  const layers = [
    await add(await packFiles(entries.slice(0, 2), new Date(0))),
    await add(gzipSync(await packFiles(entries.slice(2), new Date(0)))),
  ];
  const labels = { "org.opencontainers.image.revision": revision };
  const manifests: object[] = [];
  for (const architecture of architectures) {
    const config = await add(JSON.stringify({ architecture, config: { Labels: labels } }));
    manifests.push(await add(JSON.stringify({ config, layers })));
  }
  const manifest = await add(JSON.stringify({ manifests }));
  packed.push({ name: "index.json", text: JSON.stringify({ manifests: [manifest] }) });
  await writeFile(archive, await packFiles(packed, new Date(0)));
  const image = { name: "collector", ref: `svc-collector:0.2.0@${manifest.digest}`, archive };
  return describeImages({ version: "0.2.0", commit: `${commit}\n` }, [image], [bundle]);
};

it("lists what an image contains beside its program: Node with its digest, and the packages of dpkg's status", async () => {
  const [image] = await describeImage(usual);
  if (image === undefined) throw new Error("no image is described");
  expect([image.name, image.path, image.sha256]).toEqual([
    "collector",
    "svc-collector-0.2.0-amd64",
    expect.stringMatching(/^[0-9a-f]{64}$/),
  ]);
  const { components, metadata } = JSON.parse(
    await createSbom({ ...image, version: "0.2.0" }, new Date(0)),
  );
  expect(metadata.component.type).toBe("container");
  expect(components).toMatchObject([
    {
      name: "libc6",
      purl: "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64&distro=debian-12",
      licenses: [{ license: { id: "LGPL-2.1-or-later" } }],
    },
    {
      name: "node",
      hashes: [{ alg: "SHA-256", content: hash("sha256", "a program") }],
    },
  ]);
});

it("describes an image for each architecture of its index", async () => {
  const described = await describeImage(usual, { architectures: ["amd64", "arm64"] });
  expect(described.map(({ name, path }) => [name, path])).toEqual([
    ["collector", "svc-collector-0.2.0-amd64"],
    ["collector", "svc-collector-0.2.0-arm64"],
  ]);
  expect(described[1]?.system[0]?.purl).toMatch(/^pkg:generic\/node@[\d.]+\?arch=arm64$/);
});

it.each([
  [
    "another program",
    { "opt/svc/dist/svc-collector/main.mjs": "other" },
    "opt/svc/dist/svc-collector/main.mjs is changed",
  ],
  ["one more file", { "opt/svc/dist/extra.mjs": "" }, "opt/svc/dist/extra.mjs is unknown"],
  [
    "a package whose license nobody read",
    { "var/lib/dpkg/status.d/bash": status("bash") },
    "no license is known",
  ],
  ["a layer that removes files", { "opt/svc/.wh.dist": "" }, "removes files"],
])("rejects an image with %s", async (_, files, message) => {
  await expect(describeImage({ ...usual, ...files })).rejects.toThrow(message);
});

it("rejects an image without its program, and one of another commit", async () => {
  const { "opt/svc/dist/svc-collector/main.mjs": _, ...rest } = usual;
  await expect(describeImage(rest)).rejects.toThrow(
    "opt/svc/dist/svc-collector/main.mjs is missing",
  );
  const other = describeImage(usual, { revision: "0ther" });
  await expect(other).rejects.toThrow("was built from the commit 0ther, not from c0ffee");
});
