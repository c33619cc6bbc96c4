import { hash } from "node:crypto";
import * as nodeFiles from "node:fs/promises";
import {
  appendFile,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { execute } from "../execute.ts";
import { runManifestCommand } from "./command-line.ts";
import type { MeasuredFiles } from "./measure-file.ts";
import { parseStrictJson } from "./strict-json.ts";

const digest = "0123456789abcdef".repeat(4);
const sample = () => ({
  version: "1.2.3-rc.1+build.5",
  artifacts: [
    { path: "pool/collector.deb", kind: "deb", platform: "linux/amd64" },
    { path: "server.tar.gz", kind: "bundle", platform: "any" },
  ],
  sboms: [
    { path: "sboms/server.json", format: "CycloneDX 1.6", for: "server.tar.gz" },
    { path: "sboms/collector.json", format: "CycloneDX 1.6", for: "pool/collector.deb" },
    { path: "sboms/server.json", format: "CycloneDX 1.6", for: "core" },
  ],
  images: [
    { name: "web", ref: `registry.example.net:5000/fleet/web:1.2.3@sha256:${digest}` },
    { name: "core", ref: `core:1.2.3-rc.1@sha256:${digest}` },
  ],
});
type Sample = ReturnType<typeof sample>;

let dir: string;
let out: string;
beforeEach(async () => {
  dir = newFolder();
  for (const folder of ["pool", "sboms", "out"]) await mkdir(join(dir, folder));
  await writeFile(join(dir, "pool/collector.deb"), "deb");
  await writeFile(join(dir, "server.tar.gz"), "server");
  await writeFile(join(dir, "sboms/server.json"), "{}");
  await writeFile(join(dir, "sboms/collector.json"), '{"a":1}');
  out = join(dir, "out/manifest.json");
});

const run = async (spec: unknown, files?: MeasuredFiles) => {
  await writeFile(join(dir, "spec.json"), typeof spec === "string" ? spec : JSON.stringify(spec));
  return runArgs(["--spec", join(dir, "spec.json"), "--out", out], files);
};
const runArgs = async (args: readonly string[], files?: MeasuredFiles) => {
  const printed = { stdout: "", stderr: "" };
  const sink = (name: keyof typeof printed) => ({
    write: (text: string) => (printed[name] += text),
  });
  const context = { stdout: sink("stdout"), stderr: sink("stderr"), ...(files ? { files } : {}) };
  return { code: await runManifestCommand(args, context), ...printed };
};
const written = () => readdir(join(dir, "out"));

/** Expects a refusal with this exit code and message, and nothing written. */
const expectRefused = async (
  spec: unknown,
  code: number,
  message: string | RegExp,
  files?: MeasuredFiles,
) => {
  const result = await run(spec, files);
  expect(result).toMatchObject({ code, stdout: "", stderr: expect.stringMatching(message) });
  expect(await written()).toEqual([]);
};

it("writes sizes and digests, sorted, and only the manifest", async () => {
  expect(await run(sample())).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(await written()).toEqual(["manifest.json"]);
  const manifest = JSON.parse(await readFile(out, "utf8"));
  expect(Object.keys(manifest)).toEqual(["format", "version", "artifacts", "sboms", "images"]);
  expect(manifest).toMatchObject({
    format: "svc.release-manifest.v1",
    version: "1.2.3-rc.1+build.5",
  });
  const sha256 = hash("sha256", "deb");
  expect(manifest.artifacts[0]).toEqual({ ...sample().artifacts[0], size_bytes: 3, sha256 });
  expect(manifest.artifacts.map(({ path }: { path: string }) => path)).toEqual([
    "pool/collector.deb",
    "server.tar.gz",
  ]);
  expect(manifest.sboms.map((sbom: { for: string }) => sbom.for)).toEqual([
    "pool/collector.deb",
    "core",
    "server.tar.gz",
  ]);
  expect(manifest.images.map(({ name }: { name: string }) => name)).toEqual(["core", "web"]);
});

describe("M1: files that cannot be vouched for", () => {
  const withPath = (path: string) => {
    const spec = sample();
    return {
      ...spec,
      artifacts: [{ ...spec.artifacts[0], path }],
      sboms: [{ ...spec.sboms[0], for: path }],
    };
  };

  it.each([
    ["../server.tar.gz", "must not leave its folder"],
    ["pool/../server.tar.gz", "must not leave its folder"],
    ["pool/..", "must not leave its folder"],
    ["/etc/hostname", "must be relative"],
    ["C:/server.tar.gz", "must be relative"],
    ["..\\server.tar.gz", "backslash"],
    ["./server.tar.gz", "empty or . segments"],
    ["pool//collector.deb", "empty or . segments"],
    ["pool/", "empty or . segments"],
    ["server.tar.gz\0", "control characters"],
    ["a\nb", "control characters"],
    ["", "is empty"],
  ])("M1: rejects the path %j", async (path, message) => {
    await expectRefused(withPath(path), 65, message);
  });

  it("M1: rejects a symbolic link anywhere on the path, to a file inside as well", async () => {
    await symlink(join(dir, "server.tar.gz"), join(dir, "link.tar.gz"));
    await symlink("pool", join(dir, "linked"));
    await symlink("nowhere", join(dir, "dangling"));
    for (const path of ["link.tar.gz", "linked/collector.deb"])
      await expectRefused(withPath(path), 1, `${path} is a symbolic link, or behind one`);
    await expectRefused(withPath("dangling"), 1, "dangling is missing");
  });

  it("M1: rejects what is missing, a directory or a pipe, without waiting for a writer", async () => {
    await execute("mkfifo", [join(dir, "pipe")]);
    await expectRefused(withPath("absent"), 1, "absent is missing");
    await expectRefused(withPath("server.tar.gz/x"), 1, "is missing");
    await expectRefused(withPath("pool"), 1, "pool is not a regular file");
    await expectRefused(withPath("pipe"), 1, "pipe is not a regular file");
  });

  const large = "x".repeat(3 << 20);
  const change: Record<string, (path: string) => Promise<unknown>> = {
    grows: (path) => appendFile(path, "x"),
    shrinks: (path) => truncate(path, 1),
    "is overwritten with as many bytes": async (path) =>
      writeFile(path, large.replaceAll("x", "y")),
    "is replaced by an equal file": async (path) => {
      await writeFile(`${path}.new`, large);
      await rename(`${path}.new`, path);
    },
    "is replaced by a link to itself": async (path) => {
      await rename(path, `${path}.moved`);
      await symlink(`${path}.moved`, path);
    },
    "is deleted": (path) => rm(path),
  };
  it.each(Object.keys(change))("M1: rejects a file that %s while it is hashed", async (name) => {
    const path = join(dir, "server.tar.gz");
    await writeFile(path, large);
    let reads = 0;
    const open: typeof nodeFiles.open = async (opened, ...rest) => {
      const handle = await nodeFiles.open(opened, ...rest);
      if (!String(opened).endsWith("server.tar.gz")) return handle;
      const read = async (...args: Parameters<typeof handle.read>) => {
        if (reads++ === 1) await change[name]?.(path);
        return handle.read(...args);
      };
      return new Proxy(handle, {
        get: (target, key) => {
          if (key === "read") return read;
          const value = Reflect.get(target, key);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    };
    await expectRefused(
      sample(),
      1,
      /server\.tar\.gz (changed while it was hashed|is a symbolic link|is missing)/,
      {
        ...nodeFiles,
        open,
      },
    );
    expect(reads).toBeGreaterThan(1);
  });
});

describe("M2: specs that are not valid", () => {
  const edit = (change: (spec: Sample) => void) => {
    const spec = sample();
    change(spec);
    return spec;
  };
  const replaced = (from: string, to: string) => JSON.stringify(sample()).replace(from, to);

  it.each([
    [
      "a repeated key",
      replaced('"version":', '"version":"9.9.9","version":'),
      /a key is repeated at line 1/,
    ],
    [
      "a repeated key, escaped",
      replaced('"kind":', '"k\\u0069nd":"deb","kind":'),
      /a key is repeated/,
    ],
    ["an unknown key", { ...sample(), notes: "" }, /notes is an unknown key/],
    [
      "an unknown key inside",
      replaced('"kind":', '"url":"x","kind":'),
      /artifacts\[0\]\.url is an unknown key/,
    ],
    [
      "__proto__",
      replaced('"version":', '"__proto__":{},"version":'),
      /__proto__ is an unknown key/,
    ],
    ["a missing key", replaced('"images":', '"image":'), /images is missing/],
    ["no object", "null", /the spec must be an object/],
    ["deeper than can be read", `${"[".repeat(100_000)}${"]".repeat(100_000)}`, /cannot be read/],
    ["no JSON", "{'version': 1}", /is not JSON/],
    ["a byte order mark", `\ufeff${JSON.stringify(sample())}`, /is not JSON/],
    [
      "an artifact without SBOM",
      edit((spec) => spec.sboms.splice(0, 1)),
      /server\.tar\.gz has no SBOM/,
    ],
    [
      "an SBOM for something else",
      edit((spec) => spec.sboms.push({ path: "x", format: "y", for: "z" })),
      /neither an artifact nor an image/,
    ],
    ["an artifact twice", edit((spec) => spec.artifacts.push(...spec.artifacts)), /twice/],
    ["no artifact", edit((spec) => spec.artifacts.splice(0)), /must name an artifact/],
  ])("M2: rejects %s", async (_name, spec, message) => {
    await expectRefused(spec, 65, message);
  });

  it.each([
    "1.2",
    "v1.2.3",
    "=1.2.3",
    " 1.2.3",
    "01.2.3",
    "1.2.3-01",
    "1.2.3-",
    "1.2.3+",
    "latest",
    "",
  ])("M2: rejects the version %j", async (version) => {
    await expectRefused({ ...sample(), version }, 65, /version must be a SemVer version/);
  });

  it.each([
    `core:1.2.3@sha256:${digest.slice(1)}`,
    `core:1.2.3@sha256:${digest}0`,
    `core:1.2.3@sha256:${digest.toUpperCase()}`,
    `core:1.2.3@sha512:${digest}`,
    `core:1.2.3`,
    `core@sha256:${digest}`,
    `core:latest@sha256:${digest}`,
    `core:1.2@sha256:${digest}`,
    `core:v1.2.3@sha256:${digest}`,
    `core:1.2.3+5@sha256:${digest}`,
    `Core:1.2.3@sha256:${digest}`,
    `https://core:1.2.3@sha256:${digest}`,
    `core:1.2.3@sha256:${digest}\n`,
  ])("M2: rejects the image reference %j", async (ref) => {
    await expectRefused(
      { ...sample(), images: [{ name: "core", ref }] },
      65,
      /images\[0\]\.ref must be/,
    );
  });

  it("M2: leaves an earlier manifest as it was, and reports every fault at once", async () => {
    await writeFile(out, "earlier");
    const { code, stderr } = await run({
      ...sample(),
      version: "1",
      images: [{ name: "core", ref: "core" }],
    });
    expect([code, stderr.trim().split("\n").length]).toEqual([65, 3]);
    expect(await readFile(out, "utf8")).toBe("earlier");
    expect(await written()).toEqual(["manifest.json"]);
  });

  it("M2: accepts every JSON text without a repeated key, and rejects every one with", () => {
    const parse = (text: string) => parseStrictJson(new TextEncoder().encode(text), "it");
    fc.assert(
      fc.property(
        fc.jsonValue({ noUnicodeString: false }),
        fc.constantFrom(undefined, 2, "\t"),
        (value, indent) => {
          const text = JSON.stringify(value, null, indent);
          expect(parse(text)).toEqual(JSON.parse(text));
        },
      ),
    );
    fc.assert(
      fc.property(fc.string(), fc.jsonValue(), fc.jsonValue(), (key, a, b) => {
        const [name, first, second] = [key, a, b].map((part) => JSON.stringify(part));
        expect(() => parse(`[{"x y":[{${name}:${first},\n\t${name}:${second}}]}]`)).toThrow(
          "a key is repeated",
        );
      }),
    );
  });
});

it("M3: a shuffled spec, another time zone, locale and folder give identical bytes", async () => {
  const program = fileURLToPath(new URL("./main.ts", import.meta.url));
  const spec = sample();
  const reversed = <T extends object>(entry: T) =>
    Object.fromEntries(Object.entries(entry).reverse());
  const shuffled = reversed({
    ...spec,
    artifacts: spec.artifacts.map(reversed).reverse(),
    sboms: spec.sboms.map(reversed).reverse(),
    images: spec.images.map(reversed).reverse(),
  });
  await writeFile(join(dir, "spec.json"), JSON.stringify(spec));
  await writeFile(join(dir, "shuffled.json"), JSON.stringify(shuffled, null, "\t"));
  const environment = { PATH: process.env.PATH };
  await execute(process.execPath, [program, "--spec", join(dir, "spec.json"), "--out", out], {
    env: { ...environment, TZ: "UTC", LC_ALL: "C" },
  });
  await execute(
    process.execPath,
    [program, "--spec", "shuffled.json", "--out", "out/shuffled.json"],
    {
      cwd: dir,
      env: { ...environment, TZ: "Asia/Kathmandu", LC_ALL: "tr_TR.UTF-8", LANG: "tr_TR.UTF-8" },
    },
  );
  expect(await readFile(join(dir, "out/shuffled.json"))).toEqual(await readFile(out));
});

it("rejects a wrong command line with exit code 2", async () => {
  await writeFile(join(dir, "spec.json"), JSON.stringify(sample()));
  const spec = ["--spec", join(dir, "spec.json")];
  for (const args of [
    [],
    spec,
    [...spec, ...spec, "--out", out],
    [...spec, "--out", out, "x"],
    [...spec, "--out"],
  ])
    expect(await runArgs(args), args.join(" ")).toMatchObject({ code: 2, stdout: "" });
  for (const target of ["spec.json", "pool/collector.deb", "sboms/../sboms/server.json"])
    expect(await runArgs([...spec, "--out", join(dir, target)])).toMatchObject({
      code: 2,
      stderr: /--out is the spec/,
    });
  expect(await readFile(join(dir, "pool/collector.deb"), "utf8")).toBe("deb");
});

it("reports a spec that cannot be read and a folder that cannot be written with exit code 1", async () => {
  expect(await runArgs(["--spec", join(dir, "absent.json"), "--out", out])).toMatchObject({
    code: 1,
  });
  out = join(dir, "absent/manifest.json");
  await writeFile(join(dir, "spec.json"), JSON.stringify(sample()));
  expect(await runArgs(["--spec", join(dir, "spec.json"), "--out", out])).toMatchObject({
    code: 1,
  });
});
