import { hash } from "node:crypto";
import { join } from "node:path";
import packageJson from "#package.json" with { type: "json" };
import { execute } from "#scripts/execute.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";

/** Runs git in this repository and returns its output. */
export const git = async (...args: string[]) =>
  (await execute("git", args, { maxBuffer: 1 << 26 })).stdout;

/** A revision that the present one is an upgrade of. */
export interface PreviousRevision {
  commit: string;
  version: string;
  subject: string;
}

/** Resolves a revision. Throws when git knows no such commit. */
export const findRevision = async (name: string) => {
  const commit = await git("rev-parse", "--verify", "--end-of-options", `${name}^{commit}`).catch(
    (cause: unknown) => {
      throw new Error(`git has no commit ${name}`, { cause });
    },
  );
  return describe(commit.trim());
};

const describe = async (commit: string) => {
  const { version } = JSON.parse(await git("show", `${commit}:package.json`));
  return {
    commit,
    version,
    subject: (await git("show", "--no-patch", "--format=%s", commit)).trim(),
  };
};

/**
 * Returns the last commits of the `count` states of main before the present one whose schema differs from each other and from it, newest
 * first, and of the newest state of another version. Throws, with what to do, when this clone has not so much history.
 */
export const findPreviousStates = async (count: number) => {
  const seen = new Set([await schemaOf("HEAD")]);
  const states: PreviousRevision[] = [];
  const isDone = () =>
    states.length >= count && states.some(({ version }) => version !== packageJson.version);
  const changes = await git("log", "--first-parent", "--format=%H", "--", ...schemaPaths);
  for (const change of changes.trim().split("\n")) {
    if (isDone()) break;
    const commit = await git("rev-parse", "--verify", "--quiet", `${change}^`).catch(() => "");
    if (commit === "") break;
    const schema = await schemaOf(commit.trim());
    if (seen.has(schema)) continue;
    seen.add(schema);
    const state = await describe(commit.trim());
    if (states.length < count || state.version !== packageJson.version) states.push(state);
  }
  if (!isDone()) {
    const isShallow = (await git("rev-parse", "--is-shallow-repository")).trim() === "true";
    const what = `this clone has ${states.length} of the last ${count} states whose schema differs`;
    throw new Error(
      isShallow
        ? `${what}: it is shallow, run \`git fetch --unshallow\``
        : `${what}: choose one with --from`,
    );
  }
  return states;
};

const schemaPaths = ["drizzle/migrations", "drizzle/sql"];

/** Digests what makes an empty database: 0000_baseline_edits applies to no such one. */
const schemaOf = async (commit: string) => {
  const files = (await git("ls-tree", "-r", commit, "--", ...schemaPaths)).split("\n");
  const applied = files.filter(
    (line) => line.endsWith(".sql") && !line.endsWith("/0000_baseline_edits.sql"),
  );
  return hash("sha256", applied.join("\n"));
};

/** A revision in a working tree of its own, with its dependencies. */
export interface CheckedOut extends AsyncDisposable {
  dir: string;
  /** The Node of its dependencies. */
  node: string;
}

/** Checks a commit out into a temporary folder and installs what its lockfile names; disposing removes both. */
export const checkOut = async (commit: string) => {
  const parent = await openTemporaryFolder("upgrade");
  const dir = join(parent.path, "previous");
  const remove = async () => {
    await execute("git", ["worktree", "remove", "--force", dir]).catch(() => undefined);
    await parent.remove();
    await execute("git", ["worktree", "prune"]).catch(() => undefined);
  };
  try {
    await git("worktree", "add", "--detach", "--quiet", dir, commit);
    await execute("bun", ["install", "--frozen-lockfile", "--silent"], { cwd: dir });
  } catch (cause) {
    await remove();
    throw new Error(`${commit} cannot be checked out and installed`, { cause });
  }
  return { dir, node: join(dir, "node_modules", ".bin", "node"), [Symbol.asyncDispose]: remove };
};
