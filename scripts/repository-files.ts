import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";

/** Files that git knows or would add and that match one of the patterns, as long as they are there. */
export const repositoryFiles = (...patterns: string[]): string[] =>
  execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z", ...patterns], {
    encoding: "utf8",
  })
    .split("\0")
    .filter((path) => path !== "" && existsSync(path))
    .sort();
