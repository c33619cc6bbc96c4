import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import { parse } from "yaml";
import { compareText } from "../release-manifest/release-path.ts";

/** A package of the registry with code in an artifact. */
export interface ShippedPackage {
  name: string;
  version: string;
  /** The SPDX expression of its package.json; null without one. */
  license: string | null;
  homepage: string | null;
  /** The digest of its tarball, from bun.lock: `sha512-<base64>`. */
  integrity: string;
  /** The texts of its license files, by file name. */
  texts: ReadonlyArray<{ file: string; text: string }>;
}

/** Returns the files with code in the outputs of a build: what was left out as unused is not shipped. */
export const shippedFiles = (metafile: Metafile): string[] => [
  ...new Set(
    Object.values(metafile.outputs).flatMap(({ inputs }) =>
      Object.entries(inputs).flatMap(([path, { bytesInOutput }]) =>
        bytesInOutput > 0 ? [path] : [],
      ),
    ),
  ),
];

/** Finds the package of each file below `root`'s node_modules. Files of the repository have none. The result is sorted and has each once. */
export const packagesOf = async (
  root: string,
  files: readonly string[],
): Promise<ShippedPackage[]> => {
  const folders = new Set(files.flatMap((file) => packageFolder(file) ?? []));
  const integrities = await readIntegrities(root);
  const found = await Promise.all(
    [...folders].map((folder) => readPackage(root, folder, integrities)),
  );
  const byKey = new Map(found.map((entry) => [`${entry.name}@${entry.version}`, entry]));
  return [...byKey.entries()].sort(([a], [b]) => compareText(a, b)).map(([, entry]) => entry);
};

/** Returns the folder of the package that a file belongs to: the last `node_modules/<name>` or `node_modules/@scope/<name>` on its path. */
const packageFolder = (file: string): string | undefined =>
  /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0];

/** Reads the digests of bun.lock, which is JSON with trailing commas, by name and version. */
export const readIntegrities = async (root: string): Promise<ReadonlyMap<string, string>> => {
  const lock: unknown = parse(await readFile(join(root, "bun.lock"), "utf8"));
  const { packages } = lock as { packages: Record<string, readonly [string, ...unknown[]]> };
  return new Map(Object.values(packages).map(([id, ...rest]) => [id, String(rest.at(-1))]));
};

const readPackage = async (
  root: string,
  folder: string,
  integrities: ReadonlyMap<string, string>,
): Promise<ShippedPackage> => {
  const path = join(root, folder);
  const manifest: { name?: string; version?: string; license?: unknown; homepage?: unknown } =
    JSON.parse(await readFile(join(path, "package.json"), "utf8"));
  const { name = "", version = "", license, homepage } = manifest;
  const integrity = integrities.get(`${name}@${version}`);
  if (!integrity?.startsWith("sha512-"))
    throw new Error(`${folder}: bun.lock has no digest of ${name}@${version}`);
  const files = (await readdir(path))
    .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    .sort(compareText);
  const texts = files.map(async (file) => ({
    file,
    text: await readFile(join(path, file), "utf8"),
  }));
  return {
    name,
    version,
    license: typeof license === "string" ? license : null,
    homepage: typeof homepage === "string" && URL.canParse(homepage) ? homepage : null,
    integrity,
    texts: await Promise.all(texts),
  };
};
