/** Braces, character classes, extended globs and escapes: what can spell a `..` that a reader, or a search for it, does not see. */
const composed = /[{}[\]()\\]/;

/**
 * Whether a pattern of a `file` source names its directories literally, or with `*`, `**` and `?`, none of which matches `..`. Only then
 * does its text show where it can lead, as a desired config's must.
 */
export const hasPlainDirectories = (pattern: string): boolean => {
  const directories = pattern.slice(0, pattern.lastIndexOf("/") + 1);
  return !composed.test(directories) && !directories.split("/").includes("..");
};
