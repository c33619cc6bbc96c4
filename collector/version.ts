import { readFileSync } from "node:fs";
import { getAsset, isSea } from "node:sea";
import packageJson from "#package.json" with { type: "json" };

/** The version of this collector, as SemVer. */
export const version: string = packageJson.version;

/** Reads the commit of the build from COMMIT, beside package.json or inside the executable; `unknown` without it. */
export const readCommit = (): string => {
  try {
    return (
      (isSea()
        ? getAsset("COMMIT", "utf8")
        : readFileSync(new URL("../COMMIT", import.meta.url), "utf8")
      )
        .trim()
        .slice(0, 64) || "unknown"
    );
  } catch {
    return "unknown";
  }
};
