import { readFileSync } from "node:fs";
import { repositoryFiles } from "../repository-files.ts";
import { picturedPlacesPath, pictureFaults } from "../screenshots/pictured-places.ts";
import { documentFaults, textFaults } from "./document-faults.ts";
import { type FencedBlock, readDocument } from "./read-document.ts";

/** What a check of all documents found. */
export interface DocumentsReport {
  documents: number;
  links: number;
  /** Shell blocks by whether a test runs them. */
  commands: { run: number; notRun: number };
  faults: string[];
}

const startsWith = (prefix: string) => (block: FencedBlock) =>
  block.comment?.startsWith(prefix) ?? false;

/** Checks every Markdown page of the repository (`documentFaults`), its pictures, and the comments of its sources (`textFaults`). */
export const checkDocuments = (): DocumentsReport => {
  const readText = (path: string) => readFileSync(path, "utf8");
  const files = new Set(repositoryFiles());
  const documents = files
    .values()
    .filter((path) => path.endsWith(".md"))
    .map((path) => readDocument(path, readText(path)))
    .toArray();
  const scripts = new Set(Object.keys(JSON.parse(readText("package.json")).scripts));
  const blocks = documents.flatMap((document) => document.blocks);
  return {
    documents: documents.length,
    links: documents.reduce((sum, { links }) => sum + links.length, 0),
    commands: {
      run: blocks.filter(startsWith("run by ")).length,
      notRun: blocks.filter(startsWith("not run: ")).length,
    },
    faults: [
      ...documents.flatMap((document) =>
        documentFaults(document, { documents, files, readText, scripts }),
      ),
      ...pictureFaults(files, readText(picturedPlacesPath)),
      ...repositoryFiles("*.md", "*.sql", "*.ts", "*.tsx", ":!*/gen/*").flatMap((path) =>
        textFaults(path, readText(path), files),
      ),
    ],
  };
};
