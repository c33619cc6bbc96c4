import { distance } from "fastest-levenshtein";

/** Returns the name that `text` was probably meant to be: one that it begins, else the closest by at most 2 edits. */
export const nearest = (text: string, names: readonly string[]): string | undefined => {
  if (text === "") return undefined;
  const begun = names.find((name) => name.startsWith(text));
  if (begun !== undefined) return begun;
  const [closest] = names
    // Long texts need no exact distance.
    .filter((name) => Math.abs(text.length - name.length) <= 2)
    .map((name) => ({ name, edits: distance(text, name) }))
    .filter(({ name, edits }) => edits <= Math.min(2, name.length - 1))
    .sort((one, other) => one.edits - other.edits);
  return closest?.name;
};
