import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The folder of the repository, with a slash at its end. */
export const root = fileURLToPath(new URL("../", import.meta.url));

/** Returns the existing files that git tracks or would add and that match one of the patterns. */
export const repositoryFiles = (...patterns: string[]): string[] =>
  execFileSync(
    "git",
    ["ls-files", "--cached", "--others", "--exclude-standard", "-z", ...patterns],
    {
      encoding: "utf8",
    },
  )
    .split("\0")
    .filter((path) => path !== "" && existsSync(path))
    .sort();
