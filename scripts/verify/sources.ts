import { readFileSync } from "node:fs";
import { repositoryFiles } from "../repository-files.ts";
import { readSource, type SourceFile } from "./imports.ts";

/** Every TypeScript file of the repository. */
export const readSources = (): SourceFile[] =>
  repositoryFiles("*.ts", "*.tsx")
    .filter((path) => !path.endsWith(".d.ts"))
    .map((path) => readSource(path, readFileSync(path, "utf8")));
