import { createHash } from "node:crypto";
import { mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import packageJson from "#package.json" with { type: "json" };
import { execute } from "../execute.ts";
import { readIntegrities } from "../licenses/shipped-packages.ts";
import { root } from "../repository-files.ts";

/** The platforms that the collector is packaged for, each on any of them: how Debian, RPM and ELF name the architecture. */
export const packagePlatforms = {
  "linux-x64": { debian: "amd64", rpm: "x86_64", elfMachine: 62 },
  "linux-arm64": { debian: "arm64", rpm: "aarch64", elfMachine: 183 },
} as const;

/** The name of a platform, as Node has it: `linux-arm64`. */
export type PackagePlatform = keyof typeof packagePlatforms;

/** Returns the platform of this machine; undefined if the collector is not packaged for it. */
export const hostPlatform = (): PackagePlatform | undefined => {
  const name = `${process.platform}-${process.arch}`;
  return name in packagePlatforms ? (name as PackagePlatform) : undefined;
};

/**
 * Returns the Node of a platform. The one of another platform is fetched with npm on the first call, into node_modules beside the project's
 * own. Throws unless it is the package whose digest bun.lock has.
 */
export const nodeOf = async (platform: PackagePlatform): Promise<string> => {
  if (platform === hostPlatform()) return process.execPath;
  const name = `node-${platform}` as const;
  const version = packageJson.optionalDependencies[name];
  const folder = join(root, "node_modules", name);
  const installed = await readFile(join(folder, "package.json"), "utf8").catch(() => "{}");
  if (JSON.parse(installed).version !== version) await fetchPackage(name, version, folder);
  return join(folder, "bin/node");
};

const fetchPackage = async (name: string, version: string, folder: string): Promise<void> => {
  const work = await mkdtemp(join(root, "node_modules/.fetch-"));
  try {
    await execute("npm", ["pack", `${name}@${version}`, "--silent", "--pack-destination", work], {
      cwd: work,
    });
    const tarball = join(work, `${name}-${version}.tgz`);
    const digest = createHash("sha512")
      .update(await readFile(tarball))
      .digest("base64");
    const expected = (await readIntegrities(root)).get(`${name}@${version}`);
    if (expected !== `sha512-${digest}`)
      throw new Error(`${name}@${version} is not the package of bun.lock`);
    await execute("tar", [
      "-xzf",
      tarball,
      "-C",
      work,
      "package/package.json",
      "package/LICENSE",
      "package/bin/node",
    ]);
    await rm(folder, { recursive: true, force: true });
    await rename(join(work, "package"), folder);
  } finally {
    await rm(work, { recursive: true });
  }
};
