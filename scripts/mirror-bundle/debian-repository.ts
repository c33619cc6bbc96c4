import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { ReleaseManifest } from "../release-manifest/release-manifest.ts";

/**
 * Makes `folder` a flat Debian repository (`deb [signed-by=…] file:/folder ./`) of the manifest's packages: Packages, Packages.gz and
 * Release. The same packages and `timestamp` give the same bytes. Needs dpkg-deb.
 */
export const writeDebianRepository = async (
  folder: string,
  { artifacts }: Pick<ReleaseManifest, "artifacts">,
  timestamp: Date,
): Promise<void> => {
  const packages = artifacts.filter(({ kind }) => kind === "debian-package");
  const stanzas = packages.map(({ path, size_bytes: size, sha256 }) => {
    const control = execFileSync("dpkg-deb", ["--field", join(folder, path)], { encoding: "utf8" }).trimEnd();
    return `${control}\nFilename: ./${path}\nSize: ${size}\nSHA256: ${sha256}\n`;
  });
  const index = Buffer.from(stanzas.join("\n"));
  const files = { Packages: index, "Packages.gz": await promisify(gzip)(index, { level: 9 }) };
  const sums = Object.entries(files).map(
    ([name, content]) => ` ${createHash("sha256").update(content).digest("hex")} ${content.length} ${name}`,
  );
  const architectures = new Set(stanzas.map((stanza) => /^Architecture: (.+)$/m.exec(stanza)?.[1]));
  const release = [
    "Origin: collector-fleet",
    "Label: collector-fleet",
    `Date: ${timestamp.toUTCString().replace("GMT", "UTC")}`,
    `Architectures: ${[...architectures].sort().join(" ")}`,
    "SHA256:",
    ...sums,
  ];
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  await writeFile(join(folder, "Release"), `${release.join("\n")}\n`);
};
