import { readFileSync } from "node:fs";
import { getAsset, isSea } from "node:sea";
import packageJson from "../package.json" with { type: "json" };

/** The version of this collector, SemVer. */
export const version: string = packageJson.version;

/** The commit it was built from: the text of COMMIT, which a build leaves beside package.json or inside the executable, else `unknown`. */
export const readCommit = (): string => {
  try {
    return (
      (isSea() ? getAsset("COMMIT", "utf8") : readFileSync(new URL("../COMMIT", import.meta.url), "utf8"))
        .trim()
        .slice(0, 64) || "unknown"
    );
  } catch {
    return "unknown";
  }
};
