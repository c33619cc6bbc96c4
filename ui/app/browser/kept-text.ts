import * as v from "valibot";

const Kept = v.object({ of: v.string(), text: v.string() });

/**
 * Returns the text of a field that this tab keeps, if it was typed for `of`, such as a conversation; undefined without one, and where
 * storage is denied. It outlives a reload and a new sign-in of the same person, and no closed tab.
 */
export const readKeptText = (field: string, of: string): string | undefined => {
  try {
    const kept = v.safeParse(Kept, JSON.parse(sessionStorage.getItem(`typed:${field}`) ?? "null"));
    return kept.success && kept.output.of === of ? kept.output.text : undefined;
  } catch {
    return undefined;
  }
};

/** Keeps the text of a field, in place of any other of that field; an empty text is forgotten. */
export const keepText = (field: string, of: string, text: string): void => {
  try {
    if (text === "") sessionStorage.removeItem(`typed:${field}`);
    else sessionStorage.setItem(`typed:${field}`, JSON.stringify({ of, text }));
  } catch {
    // The text then lasts as long as the page.
  }
};
