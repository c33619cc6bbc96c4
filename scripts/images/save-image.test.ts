import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { imageDigest } from "../release-manifest/image-archive.ts";
import { saveImage } from "./save-image.ts";

it("U2: the same layers and configuration give the same archive, whatever buildah called intermediate images", async () => {
  const dir = await mkdtemp(join(tmpdir(), "save-image-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  await mkdir(join(dir, "tmp"));
  const save = async (comment: string) => {
    const podman = async (args: readonly string[]) => {
      const layout = args[args.indexOf("--output") + 1] ?? "";
      await mkdir(join(layout, "blobs/sha256"), { recursive: true });
      const add = async (text: string) => {
        const digest = createHash("sha256").update(text).digest("hex");
        await writeFile(join(layout, "blobs/sha256", digest), text);
        return { digest: `sha256:${digest}`, size: text.length };
      };
      const history = [{ created_by: "COPY" }, { comment, created_by: "ENV", empty_layer: true }];
      const config = await add(JSON.stringify({ config: { User: "1000" }, history }));
      const manifest = await add(JSON.stringify({ schemaVersion: 2, config, layers: [await add("a layer")] }));
      await writeFile(join(layout, "index.json"), JSON.stringify({ manifests: [manifest] }));
      await writeFile(join(layout, "oci-layout"), "{}");
      return "";
    };
    const file = join(dir, `${comment}.tar`);
    const tools = { dir, env: {}, firewallChains: new Set<string>(), podman };
    const { digest } = await saveImage(tools, { reference: "an image", file, timestamp: new Date(0) });
    return { digest, found: `sha256:${await imageDigest(file, "the archive")}` };
  };
  const first = await save("FROM 40ad26885309");
  expect(first.found).toBe(first.digest);
  expect(await save("FROM 393ec06990c8")).toEqual(first);
});
