import type { SourceWarning } from "../source.ts";
import type { Encoding } from "./charset.ts";
import type { LogFile, SourceFiles } from "./source-files.ts";

/** Returns the warning that some paths have in common, with the first by name; none without a path. */
export const warningOf = (
  code: string,
  paths: Iterable<string>,
  message: string,
  level: SourceWarning["level"] = "warning",
): SourceWarning[] => {
  const [path, ...others] = [...new Set(paths)].sort();
  return path === undefined ? [] : [{ code, level, path, count: 1 + others.length, message }];
};

/** Why a walk leaves a path out that it came by, and what helps. */
const reasons = {
  directory: "a directory; write `/*` or `/**` after it",
  hidden: "passed over, as its name begins with a dot; set `hidden: true`, or exclude it",
  linked: "passed over, as it is a link to a directory; set `follow_links: true`, or exclude it",
  unlisted: "a directory that this user may not list",
};

/** The paths that a walk left out, by the reason. */
export type PassedOver = Readonly<Record<keyof typeof reasons, string[]>>;

/** Returns a walk's list before it has left anything out. */
export const nothingPassedOver = (): PassedOver => ({
  directory: [],
  hidden: [],
  linked: [],
  unlisted: [],
});

/** Returns what walks left out, and no other walk found. */
export const passedOverWarnings = (
  walks: readonly PassedOver[],
  isFound: (path: string) => boolean,
): SourceWarning[] =>
  (Object.keys(reasons) as (keyof PassedOver)[]).flatMap((code) => {
    const paths = walks.flatMap((passedOver) => passedOver[code]);
    return warningOf(
      code,
      paths.filter((path) => !isFound(path)),
      reasons[code],
    );
  });

/** Returns the warning of a pattern that finds no file. */
export const noMatchWarning = (pattern: string): SourceWarning[] =>
  warningOf(
    "no_match",
    [pattern],
    /\/~|\$\{/.test(pattern)
      ? "matches no file; `~` and variables are not expanded"
      : "matches no file",
  );

/** Returns the warnings of files that are read. */
export const fileWarnings = (
  opened: readonly { readonly file: LogFile; readonly suspected: Encoding | undefined }[],
  files: Pick<SourceFiles, "isShared">,
): SourceWarning[] => {
  const pathsOf = (found: typeof opened) => found.map(({ file }) => file.path);
  return [
    ...[...Map.groupBy(opened, ({ suspected }) => suspected)].flatMap(([order, found]) =>
      order === undefined
        ? []
        : warningOf("utf16", pathsOf(found), `looks like UTF-16; set \`encoding: ${order}\``),
    ),
    ...warningOf(
      "shared",
      pathsOf(opened.filter(({ file }) => files.isShared(file))),
      "another source reads it too, so that its lines are stored twice",
    ),
  ];
};
