import { hash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { readImageContents } from "../release/image-contents.ts";
import { imageDigest } from "../release-manifest/image-archive.ts";
import { saveImage } from "./save-image.ts";

it("U2: the same images give the same archive under one index, whatever buildah called intermediate images", async () => {
  const dir = newFolder();
  await mkdir(join(dir, "tmp"));
  const save = async (comment: string) => {
    const podman = async (args: readonly string[]) => {
      const layout = args[args.indexOf("--output") + 1] ?? "";
      await mkdir(join(layout, "blobs/sha256"), { recursive: true });
      const add = async (text: string) => {
        const digest = hash("sha256", text);
        await writeFile(join(layout, "blobs/sha256", digest), text);
        return { digest: `sha256:${digest}`, size: text.length };
      };
      const history = [{ created_by: "COPY" }, { comment, created_by: "ENV", empty_layer: true }];
      const architecture = args.at(-1);
      const config = await add(JSON.stringify({ architecture, config: { User: "1000" }, history }));
      const manifest = await add(JSON.stringify({ schemaVersion: 2, config, layers: [] }));
      await writeFile(join(layout, "index.json"), JSON.stringify({ manifests: [manifest] }));
      await writeFile(join(layout, "oci-layout"), "{}");
      return "";
    };
    const file = join(dir, `${comment}.tar`);
    const tools = { dir, env: {}, firewallChains: new Set<string>(), podman };
    const images = ["amd64", "arm64"].map((architecture) => ({
      reference: architecture,
      architecture,
    }));
    const { digest } = await saveImage(tools, { images, file, timestamp: new Date(0) });
    return { file, digest, found: `sha256:${await imageDigest(file, "the archive")}` };
  };
  const first = await save("FROM 40ad26885309");
  expect(first.found).toBe(first.digest);
  const { file: _, ...second } = await save("FROM 393ec06990c8");
  expect(first).toMatchObject(second);
  const [amd64, arm64] = (await readImageContents(first.file)).map(
    ({ architecture }) => architecture,
  );
  expect([amd64, arm64]).toEqual(["amd64", "arm64"]);
});
