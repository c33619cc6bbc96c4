import type { Tree } from "../../../proto/collector-config/tree.ts";

/** A secret: the path of its value in the tree, or its line in the text (counted from 1), and its kind. */
export interface FoundSecret {
  path: readonly (string | number)[] | null;
  line: number | null;
  kind: string;
}

/** Patterns of secrets. Each runs in time linear in the length of the text; the token is found from its dot, of which runs share none. */
const patterns: readonly { kind: string; pattern: RegExp }[] = [
  { kind: "a PEM block", pattern: /-----BEGIN [A-Z0-9 ]{1,64}-----/ },
  { kind: "a bootstrap token", pattern: /svcbt_[0-9A-Za-z]{20}/ },
  { kind: "a bearer token", pattern: /\bbearer\s[A-Za-z0-9._~+/=-]{16}/i },
  { kind: "a JSON web token", pattern: /(?<=\beyJ[A-Za-z0-9_-]{8,2048})\.[A-Za-z0-9_-]{8}/ },
  { kind: "a cloud access key", pattern: /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/ },
  { kind: "a cloud API key", pattern: /\bAIza[0-9A-Za-z_-]{35}/ },
  { kind: "a cloud client secret", pattern: /\bGOCSPX-[0-9A-Za-z_-]{20}/ },
  { kind: "a storage account key", pattern: /\bAccountKey=[A-Za-z0-9+/]{20}/i },
  {
    kind: "an access token",
    pattern:
      /\b(?:gh[opusr]_[0-9A-Za-z]{30}|github_pat_[0-9A-Za-z_]{30}|xox[abprs]-[0-9A-Za-z-]{10}|sk-[0-9A-Za-z_-]{20})/,
  },
  { kind: "a URL with a password", pattern: /:\/\/[^\s/:@]{0,256}:[^\s/@]{1,256}@/ },
];

const secretName =
  /(?:^|[_.-])(?:password|passwd|passphrase|secret|token|api_?key|private_?key|credentials?)$/i;
const namedInText =
  /(?:password|passwd|passphrase|secret|token|api_?key|private_?key|credentials?)["']?\s{0,8}[:=]\s{0,8}["']?([^\s"'#]{1,256})/i;

/** Returns the secrets in the values of a parsed config and in its text, comments included. */
export const findSecrets = (tree: Tree, text: string): FoundSecret[] => {
  const found = inTree(tree, []);
  text.split(/\r\n|\r|\n/).forEach((content, index) => {
    const comment = content.indexOf("#");
    const kind =
      kindOf(content) ??
      (comment >= 0 && isNamedSecret(content.slice(comment)) ? "a secret" : undefined);
    if (kind !== undefined) found.push({ path: null, line: index + 1, kind });
  });
  return found;
};

const inTree = (tree: Tree, path: readonly (string | number)[]): FoundSecret[] => {
  if (typeof tree === "string") {
    const name = path.findLast((part) => typeof part === "string");
    const kind =
      kindOf(tree) ??
      (typeof name === "string" && secretName.test(name) && !isFile(tree) ? "a secret" : undefined);
    return kind === undefined ? [] : [{ path, line: null, kind }];
  }
  if (tree === null || typeof tree !== "object") return [];
  const entries: [string | number, Tree][] = Array.isArray(tree)
    ? [...tree.entries()]
    : Object.entries(tree);
  return entries.flatMap(([key, value]) => inTree(value, [...path, key]));
};

const kindOf = (text: string): string | undefined =>
  patterns.find(({ pattern }) => pattern.test(text))?.kind;

const isNamedSecret = (comment: string): boolean => {
  const value = namedInText.exec(comment)?.[1];
  return value !== undefined && !isFile(value);
};

/** Whether a value refers to a local file, which is how a config names a secret. */
const isFile = (value: string): boolean => value === "" || /^(?:\.{0,2}\/|file:)/.test(value);
