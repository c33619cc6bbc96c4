import { execFile } from "node:child_process";
import { copyFile, mkdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { filesBelow } from "../bundle/build-folder.ts";
import { bundleProgram, type ProgramName, programEntries, programNames } from "../bundle/bundle-programs.ts";
import { bundleUi, uiPath } from "../bundle/bundle-ui.ts";
import { printNotices } from "../licenses/licenses.ts";
import { nodePackages, programPackages } from "../licenses/program-packages.ts";
import { packagesOf, type ShippedPackage, shippedFiles } from "../licenses/shipped-packages.ts";
import { buildDebianPackage } from "../package-collector/build-debian-package.ts";
import { buildExecutable } from "../package-collector/build-executable.ts";
import { createCompletions } from "../package-collector/completions.ts";
import { type PackedFile, packTarball } from "./pack-tarball.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** A file of the release, and the packages with code in it. */
export interface BuiltArtifact {
  path: string;
  kind: "bundle" | "executable" | "debian-package" | "npm-package";
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

/** Builds every artifact into `out`. Needs a fresh checkout: `dist/` must not exist. The Debian package needs dpkg-deb. */
export const buildArtifacts = async (release: ReleaseBuild): Promise<BuiltArtifact[]> => {
  await mkdir(release.out, { recursive: true });
  const bundles: BuiltArtifact[] = [];
  for (const name of programNames) bundles.push(await packProgram(release, name));
  return [...bundles, ...(await packCollector(release)), await packClient(release)];
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

/** The collector as one executable, and the same in a Debian package. */
const packCollector = async (release: ReleaseBuild): Promise<BuiltArtifact[]> => {
  const { out, version, commit } = release;
  const work = join(root, "dist/package");
  const { executable, metafile } = await buildExecutable(work, commit);
  const name = `svc-collector-${version}-${process.platform}-${process.arch}`;
  await copyFile(executable, join(out, name));
  const packages = [...(await packagesOf(root, shippedFiles(metafile))), ...(await nodePackages())];
  const notices = printNotices(packages);
  const completions = await createCompletions();
  const { path: debianPackage } = await buildDebianPackage(work, { executable, completions, version, notices });
  await copyFile(debianPackage, join(out, basename(debianPackage)));
  const platform = `${process.platform}-${process.arch}`;
  return [
    { path: name, kind: "executable", platform, packages },
    { path: basename(debianPackage), kind: "debian-package", platform, packages },
  ];
};

/** The package that `npm pack` would make of the client, with sorted files and the time of the commit. */
const packClient = async (release: ReleaseBuild): Promise<BuiltArtifact> => {
  const folder = join(root, "client");
  const execute = promisify(execFile);
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
