import GithubSlugger from "github-slugger";
import { lexer, type Token } from "marked";

/** A fenced block of a document. */
export interface FencedBlock {
  /** The language after the fence; empty if it names none. */
  language: string;
  text: string;
  /** The text of the HTML comment directly before the block. */
  comment?: string;
}

/** The parts of a Markdown page that can be checked. */
export interface MarkdownDocument {
  path: string;
  /** Targets of links and images. */
  links: string[];
  /** Anchors of its headings, as GitHub makes them. */
  anchors: Set<string>;
  blocks: FencedBlock[];
  /** Inline code, and the lines of fenced blocks. */
  code: string[];
  /** Texts of the cells of its tables. */
  cells: string[];
  /** Words outside of fenced blocks. */
  words: number;
}

/** Returns the number of words, which have at least one letter or digit. */
export const countWords = (text: string): number =>
  text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

/** Parses a page of GitHub-flavored Markdown. */
export const readDocument = (path: string, markdown: string): MarkdownDocument => {
  const slugger = new GithubSlugger();
  const document: MarkdownDocument = {
    path,
    links: [],
    anchors: new Set(),
    blocks: [],
    code: [],
    cells: [],
    words: 0,
  };
  const collectLink = ({ href }: Token & { href?: string }) => void document.links.push(href ?? "");
  /** Collects each kind of token; `comment` is the token before it. */
  const collect: Readonly<
    Record<string, (token: Token & { text?: string }, comment: string | undefined) => void>
  > = {
    code: ({ text = "", ...token }, comment) => {
      const language = ("lang" in token && String(token.lang ?? "").split(" ")[0]) || "";
      document.blocks.push(
        comment === undefined ? { language, text } : { language, text, comment },
      );
      document.code.push(...text.split("\n"));
    },
    codespan: ({ text = "" }) => void document.code.push(text),
    link: collectLink,
    image: collectLink,
    heading: (token) => {
      const [tokens = []] = childrenOf(token);
      document.anchors.add(slugger.slug(plainText(tokens)));
    },
    table: (token) => void document.cells.push(...childrenOf(token).map(plainText)),
  };
  const visit = (tokens: readonly Token[]): void => {
    let comment: string | undefined;
    for (const token of tokens) {
      if (token.type === "space") continue;
      collect[token.type]?.(token, comment);
      comment =
        token.type === "html" ? /^\s*<!--\s*(.*?)\s*-->\s*$/s.exec(token.raw)?.[1] : undefined;
      for (const part of childrenOf(token)) visit(part);
    }
  };
  const tokens = lexer(markdown);
  visit(tokens);
  document.words = countWords(plainText(tokens));
  return document;
};

/** Returns the token lists inside a token, in order: its own, those of a list's items and those of a table's cells. */
const childrenOf = (token: Token): Token[][] => {
  if (token.type === "table")
    return [token.header, ...token.rows].flat().map((cell: { tokens: Token[] }) => cell.tokens);
  if (token.type === "list") return token.items.map((item: { tokens: Token[] }) => item.tokens);
  return "tokens" in token && token.tokens ? [token.tokens] : [];
};

/** Returns the text that a reader sees, without fenced blocks and comments. */
const plainText = (tokens: readonly Token[]): string =>
  tokens
    .map((token): string => {
      if (token.type === "code" || token.type === "html") return "";
      const parts = childrenOf(token);
      if (parts.length > 0)
        return parts
          .map(plainText)
          .join(token.type === "table" || token.type === "list" ? "\n" : "");
      return "text" in token ? token.text : " ";
    })
    .map((text, index) => (isBlock(tokens[index]) ? `${text}\n` : text))
    .join("");

const blockTypes = new Set([
  "heading",
  "paragraph",
  "list",
  "table",
  "blockquote",
  "space",
  "code",
  "html",
]);
const isBlock = (token: Token | undefined): boolean =>
  token !== undefined && blockTypes.has(token.type);
