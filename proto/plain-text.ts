/** Characters that reorder the text around them (UAX #9, section 2) or have no width, except the joiners that scripts need. */
const invisible = /(?![\u200c\u200d])\p{Cf}/gu;
/** Characters that control a line, or end it. */
const controls = /[\p{Cc}\p{Zl}\p{Zp}]/gu;

/** Spells out invisible characters of a text, `[U+202E]`, so that no name can look like another one. */
export const plainText = (text: string): string => text.replace(invisible, spellOut);

/** Spells out control characters as well, for a text within one line. */
export const plainLine = (text: string): string => plainText(text).replace(controls, spellOut);

/** Returns a character by its number. */
export const spellOut = (mark: string): string =>
  `[U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`;
