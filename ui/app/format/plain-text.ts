/** What is not seen itself: marks that reorder the text around them (UAX #9, section 2), and what has no width. Joiners are part of scripts. */
const unseen = /(?![\u200c\u200d])\p{Cf}/gu;

/** A text of a host with what is unseen in it spelled out, `[U+202E]`: it cannot make a name look like another one. */
export const plainText = (text: string): string =>
  text.replace(unseen, (mark) => `[U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`);
