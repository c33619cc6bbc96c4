import { execFileSync } from "node:child_process";
import { root } from "../repository-files.ts";

const git = (...args: string[]): string | undefined => {
  try {
    return execFileSync("git", args, {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
  } catch {
    return undefined;
  }
};

/** Returns the commit that is checked out and a newline; `unknown` outside a repository. */
export const readHeadCommit = (): string => git("rev-parse", "HEAD") ?? "unknown\n";

/** Returns the time of the commit that is checked out; 1970 outside a repository. */
export const readCommitTime = (): Date =>
  new Date(Number(git("show", "--no-patch", "--format=%ct", "HEAD") ?? 0) * 1000);
