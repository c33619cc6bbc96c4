import { dirname, join, matchesGlob, normalize } from "node:path";
import { countWords, type FencedBlock, type MarkdownDocument } from "./read-document.ts";

/** What the documents refer to. */
export interface DocumentContext {
  documents: readonly MarkdownDocument[];
  /** Paths of the repository's files. */
  files: ReadonlySet<string>;
  /** Returns the text of a file of the repository. */
  readText(path: string): string;
  /** Names of the package scripts. */
  scripts: ReadonlySet<string>;
}

/** A decision is half a page. */
const wordsMaxOf = (path: string) => (path.startsWith("docs/decisions/") ? 400 : 1500);
const cellWordsMax = 12;

/** Pages that may be long and have long table cells: generated ones, with what they are generated from. */
const generatedPages: Readonly<Record<string, string>> = {
  "docs/chat-relations.md": "the relations that the chat role may read",
  "docs/configuration.md": "the schemas of the environment",
  "docs/problems.md": "the catalogs of problems",
};
const isGenerated = (path: string) => Object.hasOwn(generatedPages, path);

const shellLanguages = new Set(["sh", "bash", "console", "shell"]);

/**
 * Returns the faults of a page: broken links and anchors, too many words, long table cells, fenced blocks without a language, package
 * scripts that do not exist, and shell blocks that are neither run by a test nor marked as not run.
 */
export const documentFaults = (document: MarkdownDocument, context: DocumentContext): string[] =>
  [
    ...document.links.flatMap((link) => linkFaults(document, link, context)),
    ...(isGenerated(document.path) ? [] : lengthFaults(document)),
    ...document.blocks.flatMap((block) => blockFaults(document, block, context)),
    ...document.code.flatMap((code) => scriptFaults(code, context)),
  ].map((fault) => `${document.path}: ${fault}`);

/** A file, a folder or a glob of the repository, as prose names it. */
const pathPattern =
  /(?<![\w./@-])(?:admin|client|collector|docs|drizzle|functions|kit|patches|proto|scripts|tests|ui)\/[\w./*-]*[\w*]/g;

const commentColumnsMax = 150;

/** Returns the paths that a page, or the comments of a source file, name and that the repository does not have; and comments too wide. */
export const textFaults = (path: string, text: string, files: ReadonlySet<string>): string[] => {
  const lines = text
    .split("\n")
    .filter((line) => path.endsWith(".md") || /^\s*(--|\/\/|\/?\*)/.test(line));
  const missing = lines
    .flatMap((line) => line.match(pathPattern) ?? [])
    .filter(
      (name) =>
        !files.has(name) && !files.values().some((file) => matchesGlob(file, `${name}{,/**}`)),
    );
  const wide = path.endsWith(".md") ? [] : lines.filter((line) => line.length > commentColumnsMax);
  return [
    ...missing.map((name) => `${path}: names ${name}, which does not exist`),
    ...wide.map(
      (line) =>
        `${path}: a comment of ${line.length} columns, at most ${commentColumnsMax}: ${line.slice(0, 60)}`,
    ),
  ];
};

const linkFaults = (
  { path, anchors }: MarkdownDocument,
  link: string,
  { documents, files }: DocumentContext,
): string[] => {
  if (/^[a-z][a-z0-9+.-]*:/i.test(link)) return [];
  const [file = "", anchor] = decodeURI(link).split("#");
  const target = file === "" ? path : normalize(join(dirname(path), file)).replace(/\/$/, "");
  const exists = files.has(target) || files.values().some((name) => name.startsWith(`${target}/`));
  if (!exists) return [`the link ${link} leads to no file of the repository`];
  if (anchor === undefined) return [];
  const known =
    target === path ? anchors : documents.find((other) => other.path === target)?.anchors;
  return known?.has(anchor) ? [] : [`the link ${link} leads to no heading`];
};

const lengthFaults = ({ path, words, cells }: MarkdownDocument): string[] => [
  ...(words > wordsMaxOf(path) ? [`${words} words; at most ${wordsMaxOf(path)}`] : []),
  ...cells
    .map((cell) => ({ cell, count: countWords(cell) }))
    .filter(({ count }) => count > cellWordsMax)
    .map(
      ({ cell, count }) =>
        `a table cell of ${count} words, at most ${cellWordsMax}: "${cell.slice(0, 60)}"`,
    ),
];

const blockFaults = (
  { path }: MarkdownDocument,
  { language, text, comment }: FencedBlock,
  { files, readText }: DocumentContext,
): string[] => {
  const named = `the block "${text.split("\n")[0]?.slice(0, 60)}"`;
  if (language === "") return [`${named} names no language; pictures are text`];
  const runBy = /^run by (\S+)$/.exec(comment ?? "")?.[1];
  if (runBy !== undefined) {
    if (!files.has(runBy)) return [`${named} is run by ${runBy}, which does not exist`];
    return readText(runBy).includes(path)
      ? []
      : [`${named} is run by ${runBy}, which does not mention ${path}`];
  }
  if (!shellLanguages.has(language) || /^not run: \S/.test(comment ?? "")) return [];
  return [`${named} needs a comment before it: <!-- run by PATH --> or <!-- not run: REASON -->`];
};

const scriptFaults = (code: string, { scripts }: DocumentContext): string[] =>
  code
    .matchAll(/bun@[\d.]+ run ([a-z][\w:-]*)/g)
    .map(([, name = ""]) => name)
    .filter((name) => !scripts.has(name))
    .map((name) => `package.json has no script "${name}"`)
    .toArray();
