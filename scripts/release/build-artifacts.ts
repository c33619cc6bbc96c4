import { copyFile, mkdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { filesBelow } from "../bundle/build-folder.ts";
import {
  bundleProgram,
  type ProgramName,
  programEntries,
  programNames,
} from "../bundle/bundle-programs.ts";
import { bundleUi, uiPath } from "../bundle/bundle-ui.ts";
import { type PackedFile, packTarball } from "../bundle/pack-tarball.ts";
import { execute } from "../execute.ts";
import { printNotices } from "../licenses/licenses.ts";
import { programPackages } from "../licenses/program-packages.ts";
import type { ShippedPackage } from "../licenses/shipped-packages.ts";
import { buildPackages } from "../package-collector/build-packages.ts";
import { type PackagePlatform, packagePlatforms } from "../platforms/package-platforms.ts";
import { root } from "../repository-files.ts";

/** A file of the release, and the packages with code in it. */
export interface BuiltArtifact {
  path: string;
  kind: "bundle" | "tarball" | "debian-package" | "rpm-package" | "npm-package";
  platform: string;
  packages: readonly ShippedPackage[];
  /** The files of a bundle, below its folder. */
  files?: readonly PackedFile[];
}

/** What all artifacts of a release have in common. */
export interface ReleaseBuild {
  out: string;
  version: string;
  commit: string;
  timestamp: Date;
}

/** Builds every artifact into `out`. Needs a fresh checkout: `dist/` must not exist. The packages need dpkg-deb and rpmbuild. */
export const buildArtifacts = async (release: ReleaseBuild): Promise<BuiltArtifact[]> => {
  await mkdir(release.out, { recursive: true });
  const artifacts: BuiltArtifact[] = [];
  for (const name of programNames) artifacts.push(await packProgram(release, name));
  for (const platform of Object.keys(packagePlatforms) as PackagePlatform[])
    artifacts.push(...(await packCollector(release, platform)));
  return [...artifacts, await packClient(release)];
};

const licenseFile = { name: "LICENSE", from: join(root, "LICENSE") };

const packProgram = async (release: ReleaseBuild, name: ProgramName): Promise<BuiltArtifact> => {
  const folder = join(root, "dist", name);
  await mkdir(folder, { recursive: true });
  const metafile = await bundleProgram(programEntries[name], folder);
  const files: PackedFile[] = [
    licenseFile,
    { name: "dist/COMMIT", text: release.commit },
    ...(await packedBelow(folder, `dist/${name}`)),
  ];
  if (name === "svc-web") {
    await bundleUi();
    files.push(...(await packedBelow(uiPath, "dist/ui")));
  }
  if (name === "svc-server" || name === "svc-fleet-sim")
    for (const part of ["drizzle/migrations", "drizzle/sql"])
      files.push(...(await packedBelow(join(root, part), part)));
  const packages = await programPackages(name, metafile);
  files.push({ name: "THIRD-PARTY-NOTICES", text: printNotices(packages) });
  const title = `${name}-${release.version}`;
  const inFolder = files.map((file) => ({ ...file, name: `${title}/${file.name}` }));
  await packTarball(join(release.out, `${title}.tar.gz`), inFolder, release.timestamp);
  return { path: `${title}.tar.gz`, kind: "bundle", platform: "any", packages, files };
};

/** Returns the files below a folder, as packed below `prefix`. INPUTS.json serves builds alone. */
const packedBelow = async (folder: string, prefix: string): Promise<PackedFile[]> =>
  (await filesBelow(folder))
    .filter((file) => file !== "INPUTS.json" && !file.includes(".test."))
    .map((file) => ({ name: `${prefix}/${file}`, from: join(folder, file) }));

/** The collector and Node as one executable for a platform: in a tar, a Debian and an RPM package. */
const packCollector = async (
  release: ReleaseBuild,
  platform: PackagePlatform,
): Promise<BuiltArtifact[]> => {
  const formats = new Set(["debian", "rpm"] as const);
  const built = await buildPackages(join(root, "dist/package"), platform, { ...release, formats });
  const artifacts: BuiltArtifact[] = [];
  for (const [kind, path] of [
    ["tarball", built.tarball],
    ["debian-package", built.debian?.path],
    ["rpm-package", built.rpm?.path],
  ] as const) {
    if (path === undefined) throw new Error(`no ${kind} was built`);
    await copyFile(path, join(release.out, basename(path)));
    artifacts.push({ path: basename(path), kind, platform, packages: built.packages });
  }
  return artifacts;
};

/** The package that `npm pack` would make of the client, with sorted files and the time of the commit. */
const packClient = async (release: ReleaseBuild): Promise<BuiltArtifact> => {
  const folder = join(root, "client");
  await execute("bun", ["install", "--frozen-lockfile", "--silent"], { cwd: folder });
  await rm(join(folder, "dist"), { recursive: true, force: true });
  await execute(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "."], { cwd: folder });
  const path = `collector-fleet-client-${release.version}.tgz`;
  const files: PackedFile[] = [
    ...["package.json", "README.md"].map((file) => ({ name: file, from: join(folder, file) })),
    licenseFile,
    ...(await packedBelow(join(folder, "dist"), "dist")),
  ];
  const inFolder = files.map((file) => ({ ...file, name: `package/${file.name}` }));
  await packTarball(join(release.out, path), inFolder, release.timestamp);
  return { path, kind: "npm-package", platform: "any", packages: [] };
};
