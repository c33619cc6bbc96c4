import type { WriteCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import { type ConfigRow, insertConfig } from "#functions/store/config/configs.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { FieldError } from "#kit/problem.ts";
import { validateCollectorConfig } from "#proto/collector-config/parse.ts";
import { hasPlainDirectories } from "#proto/collector-config/sources.ts";
import {
  configBytesMax,
  configErrorsMax,
  hashTree,
  parseTree,
  type Tree,
} from "#proto/collector-config/tree.ts";
import { isRecord } from "#proto/values.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";

/** A config that may be published. */
interface CheckedConfig {
  yaml: string;
  configHash: string;
  sizeBytes: number;
}

/** Stores a checked config, byte for byte. Publishing the same text again creates another config. */
export const publishConfig = async (
  core: WriteCore,
  by: By,
  { name, config }: { name: string | null; config: CheckedConfig },
): Promise<ConfigRow> =>
  core.db.transaction(async (tx) => {
    const row: ConfigRow = {
      ...config,
      id: uuidv7(core),
      name,
      kind: "svc-collector",
      createdAt: new Date(core.clock.now()),
      createdBy: by.caller.userId,
    };
    await insertConfig(tx, row);
    await recordOperatorAction(tx, core, by, {
      action: "config.publish",
      target: { type: "collector_config", id: row.id },
      details: { name, config_hash: row.configHash, size_bytes: row.sizeBytes },
    });
    return row;
  });

/**
 * Checks a collector config before it is published (docs/collector-config.md). Throws 413 `payload_too_large` over 256 KiB, 422
 * `config_contains_secret`, 422 `config_invalid` by the collector's own schema, or for a pattern that hides which directories it reads.
 * Errors name paths and lines, never values.
 */
export const checkConfig = async (yaml: string): Promise<CheckedConfig> => {
  const sizeBytes = new TextEncoder().encode(yaml).length;
  if (sizeBytes > configBytesMax)
    throw new Problem("payload_too_large", {
      detail: `A config is at most ${configBytesMax} bytes`,
    });
  // A YAML parser accepts NUL in a comment; the database rejects it.
  if (yaml.includes("\u0000"))
    throw invalid([{ path: "", message: "must not contain NUL characters" }]);
  const tree = parseTree(yaml);
  const secrets = findSecrets(tree.ok ? tree.tree : null, yaml);
  if (secrets.length > 0) {
    const errors = secrets.slice(0, configErrorsMax).map(({ path, line, kind }): FieldError => {
      const message = `contains ${kind}; refer to a local file instead`;
      if (path !== null && tree.ok) return tree.errorAt(path, message);
      return { path: "", line: line ?? 1, column: 1, message };
    });
    throw new Problem("config_contains_secret", { errors });
  }
  const parsed = validateCollectorConfig(tree);
  if (!parsed.ok) throw invalid(parsed.errors);
  const composed = parsed.config.sources.flatMap((source, index) => {
    const included = source.type === "file" ? [...source.include.entries()] : [];
    return included
      .filter(([, pattern]) => !hasPlainDirectories(pattern))
      .map(([at]) => parsed.errorAt(["sources", index, "include", at], composedMessage));
  });
  if (composed.length > 0) throw invalid(composed);
  if (Object.keys(parsed.config.labels).length > 0)
    throw invalid([parsed.errorAt(["labels"], labelsMessage, "key")]);
  if (tree.ok && isRecord(tree.tree) && tree.tree.local_processors !== undefined)
    throw invalid([parsed.errorAt(["local_processors"], localRulesMessage, "key")]);
  const hash = await hashTree(tree);
  if (hash === null) throw invalid([{ path: "", message: "has no hash" }]);
  return { yaml, configHash: hash, sizeBytes };
};

const labelsMessage =
  "belongs to one host: set labels in the host's own config or in its enrollment policy";

const localRulesMessage = "belongs to one host: set it there, and add rules by processors";

const composedMessage =
  "must name its directories without braces, classes, groups, backslashes and ..";

const invalid = (errors: readonly FieldError[]): Problem =>
  new Problem("config_invalid", { errors });

/** A secret: the path of its value in the tree, or its line in the text (from 1), and its kind. */
interface FoundSecret {
  path: readonly (string | number)[] | null;
  line: number | null;
  kind: string;
}

/**
 * Patterns of secrets. Each takes time linear in the length of the text; the token's search starts from its dot, which no two tokens share.
 */
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
const findSecrets = (tree: Tree, text: string): FoundSecret[] => {
  const secrets = findInTree(tree, []);
  text.split(/\r\n|\r|\n/).forEach((content, index) => {
    const commentAt = content.indexOf("#");
    const isNamed = commentAt >= 0 && isNamedSecret(content.slice(commentAt));
    const kind = kindOf(content) ?? (isNamed ? "a secret" : undefined);
    if (kind !== undefined) secrets.push({ path: null, line: index + 1, kind });
  });
  return secrets;
};

const findInTree = (tree: Tree, path: readonly (string | number)[]): FoundSecret[] => {
  if (typeof tree === "string") {
    const name = path.findLast((part) => typeof part === "string");
    const isNamed = typeof name === "string" && secretName.test(name) && !isFile(tree);
    const kind = kindOf(tree) ?? (isNamed ? "a secret" : undefined);
    return kind === undefined ? [] : [{ path, line: null, kind }];
  }
  if (tree === null || typeof tree !== "object") return [];
  const entries: [string | number, Tree][] = Array.isArray(tree)
    ? [...tree.entries()]
    : Object.entries(tree);
  return entries.flatMap(([key, value]) => findInTree(value, [...path, key]));
};

const kindOf = (text: string) => patterns.find(({ pattern }) => pattern.test(text))?.kind;

const isNamedSecret = (comment: string) => {
  const value = namedInText.exec(comment)?.[1];
  return value !== undefined && !isFile(value);
};

/** Reports whether a value refers to a local file, which is how a config names a secret. */
const isFile = (value: string) => value === "" || /^(?:\.{0,2}\/|file:)/.test(value);
