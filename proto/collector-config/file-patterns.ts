/** Braces, character classes, extended globs and escapes, with which a pattern can hide a `..`. */
const composed = /[{}[\]()\\]/;

/**
 * Reports whether a pattern of a `file` source names its directories literally, or with `*`, `**` and `?`, none of which matches `..`. Only
 * then does its text show which directories it can reach, as a desired config's must.
 */
export const hasPlainDirectories = (pattern: string): boolean => {
  const directories = pattern.slice(0, pattern.lastIndexOf("/") + 1);
  return !composed.test(directories) && !directories.split("/").includes("..");
};
