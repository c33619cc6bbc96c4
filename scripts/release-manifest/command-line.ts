import { readFile, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { valid } from "semver";
import { writeDurably } from "#collector/files/private-files.ts";
import { errorCode } from "#kit/describe-error.ts";
import { systemEntropy } from "#kit/entropy.ts";
import packageJson from "#package.json" with { type: "json" };
import type { MeasuredFiles } from "./measure-file.ts";
import { ReleaseFailure, releaseExit } from "./release-failure.ts";
import { createManifest, printManifest } from "./release-manifest.ts";
import { parseReleaseSpec, type ReleaseSpec } from "./release-spec.ts";
import { checkExpected, type ExpectedRelease, verifyBundle } from "./verify-bundle.ts";

const usage = `usage: svc-release-manifest --spec FILE --out FILE
       svc-release-manifest verify DIR --key FILE [--expect-version VERSION] [--min-version VERSION] [--not-before DAY]

Writes the manifest of a release: what it consists of, with the size and SHA-256 digest of each file. The same spec and files give
the same bytes everywhere. Nothing is written unless all is well.

  --spec FILE   JSON: {version, artifacts: [{path, kind, platform}], sboms: [{path, format, for}], images: [{name, ref}]};
                paths are relative to the folder of FILE
  --out FILE    where the manifest is written
  --help, --version

svc-release-manifest verify DIR --key FILE

Verifies a mirror bundle, offline: the signatures of SHA256SUMS by the Ed25519 public key (PEM) in FILE, every file in DIR, the manifest,
the images and the provenance. Names every file that is changed, unknown or missing. Without an expected version, rejects one older than the
newest that it has verified with this key, which it records in FILE.seen.

  --expect-version VERSION   rejects any other version
  --min-version VERSION      rejects an older version
  --not-before DAY           rejects a release of an earlier day, such as 2026-01-02

Exit codes: 0 done, 1 a file is missing, unsafe, unreadable or changed, 2 usage, 65 the spec is not valid.
`;

/** Where a command line prints; `files` replaces the file system that is measured. */
export interface ManifestContext {
  stdout: { write(text: string): unknown };
  stderr: { write(text: string): unknown };
  files?: MeasuredFiles;
}

/** Runs a command line and returns its exit code. */
export const runManifestCommand = async (
  args: readonly string[],
  context: ManifestContext,
): Promise<number> => {
  const { stdout, stderr } = context;
  try {
    if (args.includes("--help") || args.includes("--version")) {
      stdout.write(args.includes("--help") ? usage : `${packageJson.version}\n`);
      return releaseExit.done;
    }
    if (args[0] === "verify") {
      const { folder, key, expected } = readVerifyArguments(args.slice(1));
      const pem = await orFailed("the file of --key cannot be read", readFile(key, "utf8"));
      const { version, date, files, images } = await verifyBundle(folder, pem);
      await checkExpected({ version, date }, expected, `${key}.seen`);
      stdout.write(`ok: version ${version} of ${date}, ${files} files, ${images} images\n`);
      return releaseExit.done;
    }
    const { spec, out } = readFlags(args);
    await writeManifest(spec, out, context.files);
    return releaseExit.done;
  } catch (error) {
    if (!(error instanceof ReleaseFailure)) throw error;
    stderr.write(`svc-release-manifest: ${error.message}\n`);
    for (const line of error.details) stderr.write(`  ${line}\n`);
    if (error.exitCode === releaseExit.usage)
      stderr.write("  svc-release-manifest --help lists its flags\n");
    return error.exitCode;
  }
};

const readFlags = (args: readonly string[]) => {
  const { flags, positionals } = parseArguments(args, ["spec", "out"]);
  const spec = flags.get("spec");
  const out = flags.get("out");
  if (spec === undefined || out === undefined || positionals.length > 0)
    throw new ReleaseFailure("usage", "--spec FILE and --out FILE are required, and nothing else");
  return { spec, out };
};

const readVerifyArguments = (args: readonly string[]) => {
  const names = ["key", "expect-version", "min-version", "not-before"];
  const { flags, positionals } = parseArguments(args, names);
  const key = flags.get("key");
  const folder = positionals[0];
  if (key === undefined || folder === undefined || positionals.length > 1)
    throw new ReleaseFailure("usage", "verify needs one DIR and --key FILE");
  for (const name of ["expect-version", "min-version"]) {
    const value = flags.get(name);
    if (value !== undefined && valid(value) === null)
      throw new ReleaseFailure("usage", `--${name} is not a version, such as 0.2.0`);
  }
  const notBefore = flags.get("not-before");
  if (notBefore !== undefined && !isDay(notBefore))
    throw new ReleaseFailure("usage", "--not-before is not a day, such as 2026-01-02");
  const expected: ExpectedRelease = {
    version: flags.get("expect-version"),
    minVersion: flags.get("min-version"),
    notBefore,
  };
  return { key, folder, expected };
};

const isDay = (text: string): boolean => {
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().slice(0, 10) === text;
};

const parseArguments = (args: readonly string[], names: readonly string[]) => {
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" } as const]));
  const flags = new Map<string, string>();
  const positionals: string[] = [];
  try {
    for (const token of parseArgs({
      args: [...args],
      options,
      tokens: true,
      allowPositionals: true,
    }).tokens) {
      if (token.kind === "positional") positionals.push(token.value);
      if (token.kind !== "option") continue;
      if (!token.value) throw new Error(`--${token.name} needs a value`);
      if (flags.has(token.name)) throw new Error(`--${token.name} is given twice`);
      flags.set(token.name, token.value);
    }
  } catch (error) {
    throw new ReleaseFailure(
      "usage",
      error instanceof Error ? error.message : "the command line is not valid",
    );
  }
  return { flags, positionals };
};

const writeManifest = async (
  specPath: string,
  outPath: string,
  files?: MeasuredFiles,
): Promise<void> => {
  const root = dirname(resolve(specPath));
  const bytes = await orFailed("the file of --spec cannot be read", readFile(specPath));
  const spec = parseReleaseSpec(bytes);
  await checkOut(root, specPath, outPath, spec);
  const manifest = await createManifest(root, spec, files);
  const disk = { entropy: systemEntropy };
  const written = writeDurably(resolve(outPath), printManifest(manifest), disk, 0o644);
  await orFailed("the file of --out cannot be written", written);
};

/** Rejects an `--out` that would replace the spec or a file that the manifest vouches for. */
const checkOut = async (
  root: string,
  specPath: string,
  outPath: string,
  spec: ReleaseSpec,
): Promise<void> => {
  const out = resolve(outPath);
  const folder = await orFailed("the folder of --out cannot be read", realpath(dirname(out)));
  const target = join(folder, basename(out));
  const inputs = [...spec.artifacts, ...spec.sboms].map(({ path }) => join(root, path));
  for (const input of [resolve(specPath), ...inputs])
    if (target === (await realpath(input).catch(() => input)))
      throw new ReleaseFailure("usage", "--out is the spec or a file that it lists");
};

const orFailed = <T>(message: string, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw new ReleaseFailure("failed", `${message} (${errorCode(error) ?? "no code"})`);
  });
