/**
 * `bun run release -- --dry-run [--twice] [--out dist/release] [--images FILE|DIR]`: builds the release of the commit that is checked out, in
 * a clean clone. See [releases](../../docs/release.md). Prints one JSON object; exit code 1 if a part cannot be built, or with `--twice` if
 * the two builds differ.
 */
import { mkdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import packageJson from "#package.json" with { type: "json" };
import { readCommandOptions } from "../read-command-options.ts";
import { checksumsFile, parseChecksums } from "../release-manifest/checksums.ts";
import type { ReleaseManifest } from "../release-manifest/release-manifest.ts";
import { manifestFile } from "../release-manifest/verify-bundle.ts";
import { git } from "../repository-files.ts";
import { inCleanCheckout } from "./checkout.ts";
import { removeOutput, writeRelease } from "./write-release.ts";

const values = readCommandOptions({
  "dry-run": false,
  twice: false,
  out: "dist/release",
  images: null,
  // Set by this program itself, in the clone.
  "in-checkout": false,
});
const out = resolve(values.out);
const images = values.images === undefined ? undefined : resolve(values.images);
const { version } = packageJson;
const commit = git("rev-parse", "HEAD");
const commitTime = git("show", "--no-patch", "--format=%ct", commit);

/** Builds once into `folder`; returns the digests of all files. */
const build = async (
  folder: string,
  environment: NodeJS.ProcessEnv,
): Promise<ReadonlyMap<string, string>> => {
  await rm(folder, { recursive: true, force: true });
  await mkdir(dirname(folder), { recursive: true });
  const args = [
    "--in-checkout",
    "--out",
    folder,
    ...(images === undefined ? [] : ["--images", images]),
  ];
  const built = inCleanCheckout(
    commit,
    { SOURCE_DATE_EPOCH: commitTime, ...environment },
    async (run) => run("node", "scripts/release/main.ts", ...args),
  );
  await built.catch((cause: unknown) => {
    throw new Error("the commit cannot be built: see above", { cause });
  });
  const digests = parseChecksums(await readFile(join(folder, checksumsFile), "utf8"));
  if (digests === undefined) throw new Error(`${checksumsFile} is not valid`);
  return digests;
};

/** Returns why this commit cannot be published as it is. */
const obstacles = (): string[] => [
  ...(git("status", "--porcelain") === ""
    ? []
    : ["there are uncommitted changes: they are not in the release"]),
  ...(git("tag", "--points-at", commit).split("\n").includes(`v${version}`)
    ? []
    : [`the commit is not tagged v${version}`]),
  ...(images === undefined ? ["no --images: the manifest lists none"] : []),
];

const main = async (): Promise<boolean> => {
  if (values["in-checkout"]) {
    const timestamp = new Date(Number(commitTime) * 1000);
    await writeRelease({ out, version, commit: `${commit}\n`, timestamp }, images);
    return true;
  }
  await removeOutput(out);
  const notes = obstacles();
  if (!values["dry-run"] && notes.length > 0)
    throw new Error(`${notes.join("; ")} (--dry-run builds anyway)`);
  const startedAt = performance.now();
  const digests = await build(`${out}.building`, { TZ: "UTC", LC_ALL: "C" });
  // The second time in another folder, time zone and locale, and with files that others may not read.
  process.umask(0o027);
  const again = values.twice
    ? await build(`${out}.again`, { TZ: "Asia/Kathmandu", LC_ALL: "C.UTF-8" })
    : undefined;
  const paths = [...new Set([...digests.keys(), ...(again?.keys() ?? [])])];
  const differing =
    again === undefined ? [] : paths.filter((path) => digests.get(path) !== again.get(path));
  const ok = differing.length === 0;
  await rename(`${out}.building`, out);
  // Two builds that differ are kept, to compare them.
  if (ok) await rm(`${out}.again`, { recursive: true, force: true });
  const files = await Promise.all(
    paths.sort().map(async (path) => ({
      path,
      bytes: (await stat(join(out, path)).catch(() => null))?.size ?? null,
      sha256: digests.get(path) ?? null,
    })),
  );
  const manifest: ReleaseManifest = JSON.parse(await readFile(join(out, manifestFile), "utf8"));
  const platforms = Object.groupBy(manifest.artifacts, ({ platform }) => platform);
  console.log(
    JSON.stringify({
      ok,
      version,
      commit,
      dry_run: values["dry-run"],
      notes,
      out,
      builds: values.twice ? 2 : 1,
      differing,
      images: manifest.images.length,
      seconds: Math.round((performance.now() - startedAt) / 1000),
      artifacts: Object.fromEntries(
        Object.entries(platforms).map(([platform, artifacts = []]) => [
          platform,
          artifacts.map(({ path }) => path),
        ]),
      ),
      files,
    }),
  );
  return ok;
};

try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  console.error(`release: ${error instanceof Error ? error.message : "failed"}`);
  process.exitCode = 1;
}
