import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { git, root } from "../repository-files.ts";
import { openTemporaryFolder } from "../temporary-folder.ts";

/**
 * Runs `task` in a new clone of `commit` whose packages were installed from bun.lock with an empty cache, below a folder of its own that
 * is deleted afterwards. `environment` is added to that of its commands.
 */
export const inCleanCheckout = async <T>(
  commit: string,
  environment: NodeJS.ProcessEnv,
  task: (run: (command: string, ...args: string[]) => void) => Promise<T>,
): Promise<T> => {
  await using folder = await openTemporaryFolder("release");
  const checkout = join(folder.path, "checkout");
  const bin = join(checkout, "node_modules/.bin");
  const env = {
    ...process.env,
    PATH: `${bin}:${process.env.PATH}`,
    BUN_INSTALL_CACHE_DIR: join(folder.path, "cache"),
    NODE_ENV: "production",
    ...environment,
  };
  const run = (command: string, ...args: string[]) =>
    // stdout is for the result of the whole.
    void execFileSync(command, args, { cwd: checkout, env, stdio: ["ignore", 2, 2] });
  git("clone", "--quiet", "--no-checkout", root, checkout);
  run("git", "checkout", "--quiet", "--detach", commit);
  run("sh", "scripts/setup.sh");
  return await task(run);
};
