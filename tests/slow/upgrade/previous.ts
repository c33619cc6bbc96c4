import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { newestReleaseTag } from "../../../scripts/verify/landed-migrations.ts";

const execute = promisify(execFile);
export const git = async (...args: string[]): Promise<string> =>
  (await execute("git", args, { maxBuffer: 1 << 26 })).stdout;

/** A revision that the present one is an upgrade of. */
export interface PreviousRevision {
  /** As it was given or found: `v0.2.0`, `HEAD~1`. */
  name: string;
  commit: string;
  /** How it was chosen. */
  note: string;
}

/** Resolves `given`, else the newest tag `v*`, else the parent of HEAD. Throws when git knows no such commit. */
export const findPrevious = async (given: string | undefined): Promise<PreviousRevision> => {
  const tag = given === undefined ? await newestReleaseTag() : undefined;
  const [name, note] =
    given !== undefined
      ? [given, "given by --from"]
      : tag !== undefined
        ? [tag, "the newest tag v*"]
        : ["HEAD~1", "there is no tag v* yet: the parent of HEAD"];
  const resolved = git("rev-parse", "--verify", "--end-of-options", `${name}^{commit}`).catch((cause: unknown) => {
    throw new Error(`git has no commit ${name}`, { cause });
  });
  const commit = (await resolved).trim();
  return { name, commit, note };
};

/** A revision in a working tree of its own, with its dependencies. */
export interface CheckedOut extends AsyncDisposable {
  dir: string;
  /** The Node of its dependencies. */
  node: string;
}

/** Checks a commit out into a temporary folder and installs what its lockfile names; disposing removes both. */
export const checkOut = async (commit: string): Promise<CheckedOut> => {
  const parent = await mkdtemp(join(tmpdir(), "upgrade-"));
  const dir = join(parent, "previous");
  const remove = async () => {
    await execute("git", ["worktree", "remove", "--force", dir]).catch(() => undefined);
    await rm(parent, { recursive: true, force: true });
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
