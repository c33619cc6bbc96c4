import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { sampleImageDigest, writeImageArchive } from "#tests/support/deployment/image-archive.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { readImages } from "./read-images.ts";

let dir: string;
beforeEach(async () => {
  dir = newFolder();
});

it("reads images and their digests from a folder of archives", async () => {
  for (const name of ["web", "core"])
    await writeImageArchive(join(dir, `svc-${name}-0.2.0.oci.tar`));
  await writeFile(join(dir, "notes.txt"), "");
  expect(await readImages(dir, "0.2.0")).toEqual([
    {
      name: "core",
      ref: `svc-core:0.2.0@sha256:${sampleImageDigest}`,
      archive: join(dir, "svc-core-0.2.0.oci.tar"),
    },
    {
      name: "web",
      ref: `svc-web:0.2.0@sha256:${sampleImageDigest}`,
      archive: join(dir, "svc-web-0.2.0.oci.tar"),
    },
  ]);
  await expect(readImages(dir, "0.3.0")).rejects.toThrow("is not named svc-<name>-0.3.0.oci.tar");
});

it("reads references from a file, and rejects an image of the product with another tag", async () => {
  const file = join(dir, "images.json");
  const write = (name: string, tag: string) =>
    writeFile(
      file,
      JSON.stringify({
        images: [{ name, ref: `r.example.net/${name}:${tag}@sha256:${sampleImageDigest}` }],
      }),
    );
  await write("core", "0.2.0");
  expect(await readImages(file, "0.2.0")).toHaveLength(1);
  await write("postgres", "18.1.0");
  expect(await readImages(file, "0.2.0")).toHaveLength(1);
  await write("core", "0.1.0");
  await expect(readImages(file, "0.2.0")).rejects.toThrow("core is not tagged 0.2.0");
  await write("core", "latest");
  await expect(readImages(file, "0.2.0")).rejects.toThrow("the spec is not valid");
  await mkdir(join(dir, "none"));
  expect(await readImages(join(dir, "none"), "0.2.0")).toEqual([]);
});
