/** Returns text that RFC 8785 and PostgreSQL accept: U+0000 and lone surrogates become U+FFFD. */
export const cleanText = (text: string): string =>
  text.toWellFormed().replaceAll("\u0000", "\ufffd");

/** Returns a value as JSON has it, with every text cleaned: what a receipt can be computed of. */
export const plainJson = <Value>(value: Value): Value =>
  JSON.parse(JSON.stringify(value), (_, member: unknown) => {
    if (typeof member === "string") return cleanText(member);
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(
      Object.entries(member).map(([name, inner]) => [cleanText(name), inner]),
    );
  }) as Value;

/**
 * Returns a function that cleans the pieces of a text as they arrive. A piece that ends within a surrogate pair is held back until its
 * other half arrives.
 */
export const createTextCleaner = () => {
  let held = "";
  return (piece: string): string => {
    const text = held + piece;
    held = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : "";
    return cleanText(text.slice(0, text.length - held.length));
  };
};
