import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The folder of the repository, with a slash at its end. */
export const root = fileURLToPath(new URL("../", import.meta.url));

/** Runs git in the repository; returns what it prints, without the last newline. */
export const git = (...args: string[]): string =>
  execFileSync("git", args, {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  }).trimEnd();

/** Returns the existing files that git tracks or would add and that match one of the patterns. */
export const repositoryFiles = (...patterns: string[]): string[] =>
  git("ls-files", "--cached", "--others", "--exclude-standard", "-z", ...patterns)
    .split("\0")
    .filter((path) => path !== "" && existsSync(path))
    .sort();
