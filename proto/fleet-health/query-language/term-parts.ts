import { termsOf } from "./terms.ts";
import type { Word } from "./words.ts";

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
