const lengthMax = 1024;

/**
 * Returns why `path` is not the path of a file inside a release; undefined if it is one. Such a path is relative, has `/` between its
 * segments, and reads the same everywhere: no `.` or `..`, no empty segment, no backslash, no control character, normalized Unicode.
 */
export const pathFault = (path: string): string | undefined => {
  if (path === "") return "is empty";
  if (path.length > lengthMax) return `is longer than ${lengthMax} characters`;
  if (path.startsWith("/") || /^[A-Za-z]:/.test(path)) return "must be relative";
  if (path.includes("\\")) return "must not contain a backslash";
  if (/\p{C}/u.test(path) || !path.isWellFormed()) return "must not contain control characters";
  if (path !== path.normalize("NFC")) return "must be normalized (NFC)";
  const segments = path.split("/");
  if (segments.includes("..")) return "must not leave its folder (..)";
  if (segments.includes("") || segments.includes("."))
    return "must not contain empty or . segments";
  return undefined;
};

/** Compares by code unit: the same order in every locale. */
export const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
