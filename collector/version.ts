import { readFileSync } from "node:fs";
import packageJson from "../package.json" with { type: "json" };

/** The version of this collector, SemVer. */
export const version: string = packageJson.version;

/** The commit it was built from: the text of the file COMMIT that a build leaves beside package.json, else `unknown`. */
export const readCommit = (): string => {
  try {
    return (
      readFileSync(new URL("../COMMIT", import.meta.url), "utf8")
        .trim()
        .slice(0, 64) || "unknown"
    );
  } catch {
    return "unknown";
  }
};
