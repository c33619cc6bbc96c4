import { termsOf } from "./terms.ts";

/** A word of a query: the text between spaces, quoted parts included. */
export interface Word {
  /** Its start and end (exclusive) in the query. */
  from: number;
  to: number;
  /** Its text without quotes, with `\"` and `\\` inside them unescaped. */
  text: string;
  /** The length of the unquoted beginning. A key and its operator must be in it. */
  bareLength: number;
  /** The positions of the commas in `text` that are not quoted: they separate values. */
  commas: readonly number[];
  /** The position of a quote that is not closed. */
  openQuoteAt?: number;
}

const isSpace = (character: string) => /\s/.test(character);

/** Splits a query into its words, in order. Every character except unquoted spaces belongs to exactly one. */
export const splitWords = (query: string): Word[] => {
  const words: Word[] = [];
  let at = 0;
  while (at < query.length) {
    if (isSpace(query.charAt(at))) {
      at += 1;
      continue;
    }
    const word = readWord(query, at);
    words.push(word);
    at = word.to;
  }
  return words;
};

const readWord = (query: string, from: number): Word => {
  let text = "";
  let at = from;
  let quoteAt: number | undefined;
  let bareLength: number | undefined;
  const commas: number[] = [];
  for (; at < query.length; at += 1) {
    const character = query.charAt(at);
    if (character === '"') {
      bareLength ??= at - from;
      quoteAt = quoteAt === undefined ? at : undefined;
    } else if (quoteAt !== undefined && character === "\\" && /["\\]/.test(query.charAt(at + 1))) {
      at += 1;
      text += query.charAt(at);
    } else if (quoteAt === undefined && isSpace(character)) break;
    else {
      if (character === "," && quoteAt === undefined) commas.push(text.length);
      text += character;
    }
  }
  return {
    from,
    to: at,
    text,
    bareLength: bareLength ?? at - from,
    commas,
    ...(quoteAt === undefined ? {} : { openQuoteAt: quoteAt }),
  };
};

/** Quotes a text, so that `splitWords` reads it as one word. */
export const quote = (text: string): string => `"${text.replace(/["\\]/g, "\\$&")}"`;

/** Quotes a value behind a key where needed: a comma would separate values, and at the beginning `<` and `>` belong to the operator. */
export const quoteValue = (text: string): string =>
  /^[^\s",<>=][^\s",]*$/.test(text) ? text : quote(text);

/** The parts of a word: `-version:1.2.3` is negated, key `version`, operator `:`, value `1.2.3`. */
export interface TermParts {
  negated: boolean;
  key: string;
  operator: string;
  value: string;
  /** The length of everything before the value, in characters of the query. */
  headLength: number;
}

/** `ab:cd:ef:01`: a serial number or a fingerprint as tools print it. */
const colonHex = /^[0-9a-f]{2}(:[0-9a-f]{2}){3,}$/i;

/**
 * Splits a word that looks like `key:value`, `key>value` or `key<value`; undefined for free text. A URI (`spiffe://…`) is free text,
 * unless it begins with a key of the language, and so is a serial number with colons.
 */
export const termParts = ({
  text,
  bareLength,
}: Pick<Word, "text" | "bareLength">): TermParts | undefined => {
  const [head, minus, key, operator] =
    /^(-?)(label\.[a-z0-9._-]+|[a-z][a-z_]*)(:(?:[<>]=?)?|[<>][=:]?)/i.exec(
      text.slice(0, bareLength),
    ) ?? [];
  if (head === undefined || key === undefined || operator === undefined) return undefined;
  const value = text.slice(head.length);
  // The key of a label is case-sensitive.
  const name = key.replace(/^[^.]+/, (word) => word.toLowerCase());
  if (
    termsOf(name).length === 0 &&
    (value.startsWith("//") || colonHex.test(text.slice((minus ?? "").length)))
  )
    return undefined;
  return { negated: minus === "-", key: name, operator, value, headLength: head.length };
};
