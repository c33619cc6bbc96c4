import * as v from "valibot";
import { readTabText, storeTabText } from "./stored-text.ts";

const Kept = v.pipe(v.string(), v.parseJson(), v.object({ of: v.string(), text: v.string() }));

/**
 * Returns the text of a field that this tab keeps, if it was typed for `of`, such as a conversation; undefined without one. It outlives a
 * reload and a new sign-in of the same person, and no closed tab.
 */
export const readKeptText = (field: string, of: string): string | undefined => {
  const kept = v.safeParse(Kept, readTabText(`typed:${field}`));
  return kept.success && kept.output.of === of ? kept.output.text || undefined : undefined;
};

/** Keeps the text of a field, in place of any other of that field; an empty text is forgotten. */
export const keepText = (field: string, of: string, text: string): void =>
  storeTabText(`typed:${field}`, JSON.stringify({ of, text }));
