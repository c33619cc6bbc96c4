import { spawn } from "node:child_process";
import { mkdir, readdir, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { buildFolder, type FolderBuild } from "./build-folder.ts";

let root: string;
let builds: number;
const hashed = (content: string) => `chunk-${content}.mjs`;

/** A build whose entry file refers to a file with the input's content in its name. */
const sample = (): FolderBuild => ({
  folder: join(root, "dist/program"),
  root,
  entryFiles: ["main.mjs"],
  build: async (outDir) => {
    builds++;
    const content = await readFile(join(root, "input"), "utf8");
    await writeFile(join(outDir, hashed(content)), "");
    await writeFile(join(outDir, "main.mjs"), hashed(content));
    return ["input"];
  },
});

const list = async (folder: string) =>
  (await readdir(join(root, folder))).filter((name) => !name.startsWith("."));

/** Writes the input, as an editor did before this second. */
const writeInput = async (content: string) => {
  await writeFile(join(root, "input"), content);
  await utimes(join(root, "input"), 1_000_000, 1_000_000);
};

beforeEach(async () => {
  root = newFolder();
  builds = 0;
  await writeInput("a");
});

it("builds once, and again only after an input changed", async () => {
  await buildFolder(sample());
  await buildFolder(sample());
  expect(builds).toBe(1);
  await writeInput("b");
  await buildFolder(sample());
  expect(builds).toBe(2);
  expect(await readFile(join(root, "dist/program/main.mjs"), "utf8")).toBe(hashed("b"));
  expect(await list("dist")).toEqual(["program"]);
});

it("builds again after an input changed while it was being built", async () => {
  const build = sample();
  await buildFolder({
    ...build,
    build: async (outDir) => {
      const inputs = await build.build(outDir);
      await writeFile(join(root, "input"), "b");
      return inputs;
    },
  });
  await writeInput("b");
  await buildFolder(sample());
  expect(builds).toBe(2);
});

it("keeps the files of the previous build for a week, because a running program may load them", async () => {
  await buildFolder(sample());
  await writeInput("b");
  await buildFolder(sample());
  expect(await list("dist/program")).toContain(hashed("a"));
  await utimes(join(root, "dist/program", hashed("a")), 1_000_000, 1_000_000);
  await writeInput("c");
  await buildFolder(sample());
  expect((await list("dist/program")).sort()).toEqual(
    [hashed("b"), hashed("c"), "INPUTS.json", "main.mjs"].sort(),
  );
});

it("leaves the folder as it was when a build fails", async () => {
  await buildFolder(sample());
  await writeInput("b");
  const failing = { ...sample(), build: () => Promise.reject(new Error("does not compile")) };
  await expect(buildFolder(failing)).rejects.toThrow("does not compile");
  expect(await readFile(join(root, "dist/program/main.mjs"), "utf8")).toBe(hashed("a"));
  expect(await list("dist")).toEqual(["program"]);
});

it("builds once for processes that start side by side, and each of them finds every file", async () => {
  const script = join(root, "start.mjs");
  const module = new URL("./build-folder.ts", import.meta.url).href;
  await mkdir(join(root, "builds"));
  await writeFile(
    script,
    `import { mkdtemp, readFile, writeFile } from "node:fs/promises";
     import { buildFolder } from ${JSON.stringify(module)};
     const root = ${JSON.stringify(root)};
     await buildFolder({
       folder: root + "/dist/program", root, entryFiles: ["main.mjs"],
       build: async (outDir) => {
         await mkdtemp(root + "/builds/");
         await writeFile(outDir + "/chunk.mjs", "export default 1");
         await writeFile(outDir + "/main.mjs", 'await import("./chunk.mjs")');
         return ["input"];
       },
     });
     await import(root + "/dist/program/main.mjs");`,
  );
  const start = () =>
    new Promise((resolve) =>
      spawn(process.execPath, [script], { stdio: "inherit" }).on("exit", resolve),
    );
  const codes = await Promise.all(Array.from({ length: 4 }, start));
  expect(codes).toEqual([0, 0, 0, 0]);
  expect(await readdir(join(root, "builds"))).toHaveLength(1);
});
