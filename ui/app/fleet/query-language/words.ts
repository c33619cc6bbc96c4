/** A word of a query: what stands between spaces, with quoted parts taken as they are. */
export interface Word {
  /** Where it begins in the query, and where it ends (exclusive). */
  from: number;
  to: number;
  /** What it says: quotes removed, `\"` and `\\` inside them resolved. */
  text: string;
  /** The length of the unquoted beginning, the only place where a key and its operator are looked for. */
  bareLength: number;
  /** Where a quote opens that nothing closes. */
  openQuoteAt?: number;
}

const isSpace = (character: string): boolean => /\s/.test(character);

/** The words of a query, in order. Every character that is not a space outside quotes belongs to exactly one. */
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
  for (; at < query.length; at += 1) {
    const character = query.charAt(at);
    if (character === '"') {
      bareLength ??= at - from;
      quoteAt = quoteAt === undefined ? at : undefined;
    } else if (quoteAt !== undefined && character === "\\" && /["\\]/.test(query.charAt(at + 1))) {
      at += 1;
      text += query.charAt(at);
    } else if (quoteAt === undefined && isSpace(character)) break;
    else text += character;
  }
  return {
    from,
    to: at,
    text,
    bareLength: bareLength ?? at - from,
    ...(quoteAt === undefined ? {} : { openQuoteAt: quoteAt }),
  };
};

/** `text` in quotes, which `splitWords` reads back as one word that says `text`. */
export const quote = (text: string): string => `"${text.replace(/["\\]/g, "\\$&")}"`;

/** `text` as the value behind a key: in quotes only where it must be. At its beginning `<` and `>` would belong to the operator. */
export const quoteValue = (text: string): string => (/^[^\s"<>][^\s"]*$/.test(text) ? text : quote(text));
