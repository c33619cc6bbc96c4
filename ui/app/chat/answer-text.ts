/** A piece of an answer's text; `href` where it names a page of ours. */
export interface TextPiece {
  text: string;
  href?: string;
}

/** The pages that an answer may link to. Everything else, such as a URL, stays text. */
const linkedPage =
  /^\/(fleet|audit|configs|enrollment|(hosts|configs)\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** A path after white space or an opening mark, with the characters that a query has (RFC 3986) and the comparisons of the query bar. */
const candidate =
  /(?<=^|[\s("'`[<])\/[a-z][a-z-]*(?:\/[0-9a-f-]{36})?(?:\?[\w\-.~!$&'()*+,;=:@%/?<>]*)?/gu;

/** Marks that end a sentence or close a quotation around a path, and are rarely its own. */
const trailing = new Set(".,;:!?'\"`)>]*");

/** A regular expression would take quadratic time. */
const withoutTrailing = (path: string): string => {
  let end = path.length;
  while (trailing.has(path.charAt(end - 1))) end -= 1;
  return path.slice(0, end);
};

/** Returns the pieces of a text, in order: links to pages of ours, and the text between them. */
export const textPieces = (text: string): TextPiece[] => {
  const pieces: TextPiece[] = [];
  let from = 0;
  for (const { 0: match, index } of text.matchAll(candidate)) {
    const path = withoutTrailing(match);
    const end = index + path.length;
    const page = path.split("?")[0] ?? "";
    // More of the path, as in `/fleet/../x`, is another page.
    if (!linkedPage.test(page) || /^[/\w-]/.test(text.slice(end))) continue;
    if (index > from) pieces.push({ text: text.slice(from, index) });
    pieces.push({ text: path, href: path });
    from = end;
  }
  if (from < text.length) pieces.push({ text: text.slice(from) });
  return pieces;
};
