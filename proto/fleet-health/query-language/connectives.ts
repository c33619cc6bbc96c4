import { quote, termParts, type Word } from "./words.ts";

const kinds: Readonly<Record<string, "or" | "and" | "not">> = {
  or: "or",
  "|": "or",
  "||": "or",
  and: "and",
  "&": "and",
  "&&": "and",
  not: "not",
};

/** Reports whether a word is OR, AND or NOT, which need quotes as a text. */
export const isConnective = (text: string): boolean => Object.hasOwn(kinds, text.toLowerCase());

/** Returns the fault of OR, AND and NOT between other words, with what to write instead; undefined for other or quoted words. */
export const connectiveFault = (words: readonly Word[], index: number): string | undefined => {
  const word = words[index];
  if (word === undefined || words.length === 1 || word.to - word.from !== word.text.length)
    return undefined;
  const kind = isConnective(word.text) ? kinds[word.text.toLowerCase()] : undefined;
  const asText = `To search for the word, put it in quotes: ${quote(word.text)}`;
  if (kind === "and") return `Words and terms are joined by AND already: leave it out. ${asText}`;
  if (kind === "not")
    return `To exclude, write a minus before the word or term: -state:healthy. ${asText}`;
  return kind === "or"
    ? `There is no OR. ${orAlternative(words[index - 1], words[index + 1])} ${asText}`
    : undefined;
};

const orAlternative = (before: Word | undefined, after: Word | undefined) => {
  const [left, right] = [before, after].map((word) => word && termParts(word));
  if (
    left &&
    right &&
    left.key === right.key &&
    left.operator === ":" &&
    left.negated === right.negated
  )
    return `Write several values with commas: ${left.negated ? "-" : ""}${left.key}:${left.value},${right.value}.`;
  return "Write several values of one key with commas, like state:stale,revoked; search for one thing at a time otherwise.";
};
