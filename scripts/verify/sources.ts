import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { readSource, type SourceFile } from "./imports.ts";

/** Files that git knows or would add and that match one of the patterns, as long as they are there. */
export const repositoryFiles = (...patterns: string[]): string[] =>
  execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z", ...patterns], {
    encoding: "utf8",
  })
    .split("\0")
    .filter((path) => path !== "" && existsSync(path))
    .sort();

/** Every TypeScript file of the repository. */
export const readSources = (): SourceFile[] =>
  repositoryFiles("*.ts", "*.tsx")
    .filter((path) => !path.endsWith(".d.ts"))
    .map((path) => readSource(path, readFileSync(path, "utf8")));
