import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { version } from "#collector/version.ts";
import { packTarball } from "../bundle/pack-tarball.ts";
import { printNotices } from "../licenses/licenses.ts";
import { nodePackages } from "../licenses/program-packages.ts";
import { packagesOf, type ShippedPackage, shippedFiles } from "../licenses/shipped-packages.ts";
import { nodeOf, type PackagePlatform, packagePlatforms } from "../platforms/package-platforms.ts";
import { root } from "../repository-files.ts";
import { type BuiltPackage, buildDebianPackage } from "./build-debian-package.ts";
import { buildExecutable } from "./build-executable.ts";
import { buildRpmPackage } from "./build-rpm-package.ts";
import { createCompletions } from "./completions.ts";
import { tarredFiles } from "./package-files.ts";

/** The collector for one platform, in every form. A package whose tool is missing is null. */
export interface CollectorPackages {
  executable: string;
  tarball: string;
  debian: BuiltPackage | null;
  rpm: BuiltPackage | null;
  packages: readonly ShippedPackage[];
}

/** How a build differs from one of the release. */
export interface PackageOptions {
  commit: string;
  timestamp: Date;
  /** The package formats whose tools are there. */
  formats: ReadonlySet<"debian" | "rpm">;
}

/** Builds the collector for a platform, which need not be that of this machine, below `<dir>/<platform>`. */
export const buildPackages = async (
  dir: string,
  platform: PackagePlatform,
  { commit, timestamp, formats }: PackageOptions,
): Promise<CollectorPackages> => {
  const work = join(dir, platform);
  await mkdir(work, { recursive: true });
  const { executable, metafile } = await buildExecutable(work, commit, await nodeOf(platform));
  checkHeader(await readFile(executable), platform);
  const packages = [
    ...(await packagesOf(root, shippedFiles(metafile))),
    ...(await nodePackages(platform)),
  ];
  const completions = await createCompletions();
  for (const [shell, script] of Object.entries(completions))
    await writeFile(join(work, `completion.${shell}`), script);
  const contents = { executable, completions, notices: printNotices(packages) };
  const title = `svc-collector-${version}-${platform}`;
  const tarball = join(work, `${title}.tar.gz`);
  await packTarball(
    tarball,
    tarredFiles(contents).map((file) => ({ ...file, name: `${title}/${file.name}` })),
    timestamp,
    // The default level of gzip: a hundredth larger than the best one, in half the time.
    6,
  );
  const build = { ...contents, version, platform };
  return {
    executable,
    tarball,
    debian: formats.has("debian") ? await buildDebianPackage(work, build) : null,
    rpm: formats.has("rpm") ? await buildRpmPackage(work, build) : null,
    packages,
  };
};

/** Where the header of a 64-bit ELF file has its machine (elf(5)). */
const machineAt = 18;

/** Throws unless an executable is for the machine of `platform`: what is built for another one does not run here. */
const checkHeader = (executable: Buffer, platform: PackagePlatform): void => {
  const machine =
    executable.subarray(1, 4).toString("latin1") === "ELF"
      ? executable.readUInt16LE(machineAt)
      : null;
  const { elfMachine } = packagePlatforms[platform];
  if (machine !== elfMachine)
    throw new Error(`the executable is for the machine ${machine}, not ${elfMachine}`);
};
