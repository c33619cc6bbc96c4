import { extname } from "node:path";

/** Returns the names that a file may have had before rotation gave it `name`: of `app.log.1` and `app-20260102.log`, `app.log` is among them. */
export const possibleBases = (name: string): string[] => {
  const bases = new Set<string>();
  // The kubelet compresses a generation into a file of this name.
  if (name.endsWith(".tmp")) return [];
  for (const { index } of name.matchAll(/[.\-_]/g)) {
    const stem = name.slice(0, index);
    bases.add(stem);
    for (const part of name.slice(index).split(".").slice(1))
      bases.add(stem + extname(`a.${part}`));
  }
  bases.delete(name);
  bases.delete("");
  return [...bases];
};

/** Returns the name that a file had before rotation gave it `name`, if it is among `bases`: the longest of several. */
export const baseOfRotated = (name: string, bases: ReadonlySet<string>): string | undefined =>
  possibleBases(name)
    .filter((base) => bases.has(base))
    .toSorted((a, b) => b.length - a.length)[0];
