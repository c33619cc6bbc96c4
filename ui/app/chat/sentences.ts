/** A sentence with its mark and what follows it, or a line. */
const ending = /[.!?…]["')\]]*(?=\s)|\n/gu;

/**
 * Returns the text after `from` that is made of whole sentences or lines, and where it ends. An announcement of each word would interrupt
 * the previous one.
 */
export const sentencesAfter = (text: string, from: number): { spoken: string; end: number } => {
  let end = from;
  for (const match of text.slice(from).matchAll(ending)) end = from + match.index + match[0].length;
  return { spoken: text.slice(from, end).trim(), end };
};
