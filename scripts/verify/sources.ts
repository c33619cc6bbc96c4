import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readSource, type SourceFile } from "./imports.ts";

/** Every TypeScript file of the repository that git knows or would add. */
export const readSources = (): SourceFile[] =>
  execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.ts", "*.tsx"], {
    encoding: "utf8",
  })
    .split("\0")
    .filter((path) => path !== "" && !path.endsWith(".d.ts"))
    .flatMap((path) => {
      // A file deleted and not yet committed is still listed.
      const text = readText(path);
      return text === undefined ? [] : [readSource(path, text)];
    });

const readText = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
};
