import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { execute } from "../execute.ts";
import type { ReleaseManifest } from "../release-manifest/release-manifest.ts";
import { repositoryFolder } from "../release-manifest/verify-bundle.ts";
import { openTemporaryFolder } from "../temporary-folder.ts";

/** The public key of the repository, in the bundle: apt's `signed-by`. */
const keyringFile = "collector-fleet.gpg";

/**
 * Makes `folder` a Debian repository (`deb [signed-by=…] https://mirror.example.net/ stable main`) of the manifest's packages: the indexes of
 * each architecture and Release. The same packages and `timestamp` give the same bytes. Needs dpkg-deb if there is a package.
 */
export const writeDebianRepository = async (
  folder: string,
  { artifacts }: Pick<ReleaseManifest, "artifacts">,
  timestamp: Date,
): Promise<void> => {
  const stanzas = artifacts
    .filter(({ kind }) => kind === "debian-package")
    .map(({ path, size_bytes: size, sha256 }) => {
      const control = execFileSync("dpkg-deb", ["--field", join(folder, path)], {
        encoding: "utf8",
      }).trimEnd();
      const architecture = /^Architecture: (.+)$/m.exec(control)?.[1] ?? "all";
      return {
        architecture,
        text: `${control}\nFilename: ${path}\nSize: ${size}\nSHA256: ${sha256}\n`,
      };
    });
  const architectures = [...new Set(stanzas.map(({ architecture }) => architecture))].sort();
  const sums: string[] = [];
  for (const architecture of architectures) {
    const own = stanzas.filter((stanza) => stanza.architecture === architecture);
    const index = Buffer.from(own.map(({ text }) => text).join("\n"));
    for (const [name, content] of [
      ["Packages", index],
      ["Packages.gz", await promisify(gzip)(index, { level: 9 })],
    ] as const) {
      const path = `main/binary-${architecture}/${name}`;
      await mkdir(dirname(join(folder, repositoryFolder, path)), { recursive: true });
      await writeFile(join(folder, repositoryFolder, path), content);
      sums.push(` ${createHash("sha256").update(content).digest("hex")} ${content.length} ${path}`);
    }
  }
  const release = [
    "Origin: collector-fleet",
    "Label: collector-fleet",
    "Suite: stable",
    "Codename: stable",
    `Date: ${timestamp.toUTCString().replace("GMT", "UTC")}`,
    `Architectures: ${architectures.join(" ")}`,
    "Components: main",
    "SHA256:",
    ...sums,
  ];
  await mkdir(join(folder, repositoryFolder), { recursive: true });
  await writeFile(join(folder, repositoryFolder, "Release"), `${release.join("\n")}\n`);
};

/**
 * Signs the Release file of a repository with gpg, inline and detached, and writes the public key to `keyringFile`. `key` is a file with an
 * OpenPGP private key without a passphrase; without it a new key signs, which is not kept.
 */
export const signDebianRepository = async (
  folder: string,
  key: string | undefined,
): Promise<void> => {
  // In the path of a socket, which is limited.
  await using home = await openTemporaryFolder("gpg");
  const gpg = (...args: string[]) =>
    execute("gpg", [
      "--homedir",
      home.path,
      "--batch",
      "--yes",
      "--quiet",
      "--no-tty",
      "--digest-algo",
      "SHA512",
      ...args,
    ]);
  const release = join(folder, repositoryFolder, "Release");
  try {
    if (key !== undefined) await gpg("--import", key);
    else
      await gpg(
        "--passphrase",
        "",
        "--quick-generate-key",
        "collector-fleet trial",
        "ed25519",
        "sign",
        "never",
      );
    await gpg("--output", join(folder, repositoryFolder, "InRelease"), "--clearsign", release);
    await gpg("--output", `${release}.gpg`, "--armor", "--detach-sign", release);
    await gpg("--output", join(folder, keyringFile), "--export");
  } finally {
    await execute("gpgconf", ["--homedir", home.path, "--kill", "all"]).catch(() => undefined);
  }
};
