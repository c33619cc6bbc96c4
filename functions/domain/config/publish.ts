import type { WriteCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import { type ConfigRow, insertConfig } from "#functions/store/config/configs.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { FieldError } from "#kit/problem.ts";
import { validateCollectorConfig } from "#proto/collector-config/parse.ts";
import { hasPlainDirectories } from "#proto/collector-config/sources.ts";
import {
  type ConfigTextError,
  configBytesMax,
  configErrorsMax,
  hashTree,
  type ParsedTree,
  parseTree,
  type Tree,
} from "#proto/collector-config/tree.ts";
import { type ConfigFindings, checkOtelcolConfig } from "#proto/otelcol-config/check.ts";
import type { AgentKind } from "#proto/values.ts";
import { isRecord } from "#proto/values.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";

/** A config that may be published. */
interface CheckedConfig {
  kind: AgentKind;
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
 * Checks a config before it is published (docs/collector-config.md, docs/rollouts.md). Returns what may be wrong beside it. Throws 413
 * `payload_too_large` over 256 KiB, 422 `config_contains_secret`, 422 `config_invalid` by the schema of its kind of agent. Errors name
 * paths and lines, never values.
 */
export const checkConfig = async (
  yaml: string,
  kind: AgentKind = "svc-collector",
): Promise<{ config: CheckedConfig; warnings: ConfigTextError[] }> => {
  const sizeBytes = new TextEncoder().encode(yaml).length;
  if (sizeBytes > configBytesMax)
    throw new Problem("payload_too_large", {
      detail: `A config is at most ${configBytesMax} bytes`,
    });
  // A YAML parser accepts NUL in a comment; the database rejects it.
  if (yaml.includes("\u0000"))
    throw invalid([{ path: "", message: "must not contain NUL characters" }]);
  const tree = parseTree(yaml);
  const secrets = findSecrets(tree.ok ? tree.tree : null, yaml, kind);
  if (secrets.length > 0) {
    const errors = secrets.slice(0, configErrorsMax).map((found): FieldError => {
      const message = `contains ${found.kind}; refer to ${secretReferences[kind]} instead`;
      if (found.path !== null && tree.ok) return tree.errorAt(found.path, message);
      return { path: "", line: found.line ?? 1, column: 1, message };
    });
    throw new Problem("config_contains_secret", { errors });
  }
  if (!tree.ok) throw invalid(tree.errors);
  const { errors, warnings } = checks[kind](tree);
  if (errors.length > 0) throw invalid(errors);
  const hash = await hashTree(tree);
  if (hash === null) throw invalid([{ path: "", message: "has no hash" }]);
  return { config: { kind, yaml, configHash: hash, sizeBytes }, warnings };
};

/** Checks a config by the collector's own schema, and refuses patterns that hide which directories they read, and what is one host's. */
const checkCollectorConfig = (tree: ParsedTree): ConfigFindings => {
  const refuse = (...errors: ConfigTextError[]) => ({ errors, warnings: [] });
  const parsed = validateCollectorConfig(tree);
  if (!parsed.ok) return refuse(...parsed.errors);
  const composed = parsed.config.sources.flatMap((source, index) => {
    const included = source.type === "file" ? [...source.include.entries()] : [];
    return included
      .filter(([, pattern]) => !hasPlainDirectories(pattern))
      .map(([at]) => parsed.errorAt(["sources", index, "include", at], composedMessage));
  });
  if (composed.length > 0) return refuse(...composed);
  if (Object.keys(parsed.config.labels).length > 0)
    return refuse(parsed.errorAt(["labels"], labelsMessage, "key"));
  if (isRecord(tree.tree) && tree.tree.local_processors !== undefined)
    return refuse(parsed.errorAt(["local_processors"], localRulesMessage, "key"));
  return refuse();
};

const checks: Record<AgentKind, (tree: ParsedTree) => ConfigFindings> = {
  "svc-collector": checkCollectorConfig,
  otelcol: checkOtelcolConfig,
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
  /(?:^|[_.-])(?:password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key|credentials?|authorization)$/i;
const namedInText =
  /(?:password|passwd|passphrase|secret|token|api_?key|private_?key|credentials?)["']?\s{0,8}[:=]\s{0,8}["']?([^\s"'#]{1,256})/i;

/** How a config of each kind names a secret. */
const secretReferences: Record<AgentKind, string> = {
  "svc-collector": "a local file",
  otelcol: `\${env:NAME} or \${file:/path}`,
};

/** A reference of an OpenTelemetry Collector without a default, which would be the secret. */
const otelcolReference = /\$\{(?:(?:env:)?[A-Za-z_]\w{0,255}|file:[^\s{}]{1,1024})\}/g;

/** Reports whether a value is not the secret itself: it is empty or refers to one, which a scheme such as `Bearer` may precede. */
const refersToSecret: Record<AgentKind, (value: string) => boolean> = {
  "svc-collector": (value) => value === "" || /^(?:\.{0,2}\/|file:)/.test(value),
  otelcol: (value) => {
    const literal = value.replace(otelcolReference, "");
    return value === "" || (literal !== value && /^(?:[A-Za-z]+ )?$/.test(literal));
  },
};

/** Returns the secrets in the values of a parsed config and in its text, comments included. */
const findSecrets = (tree: Tree, text: string, agent: AgentKind): FoundSecret[] => {
  const secrets = findInTree(tree, agent, []);
  text.split(/\r\n|\r|\n/).forEach((content, index) => {
    const commentAt = content.indexOf("#");
    const isNamed = commentAt >= 0 && isNamedSecret(content.slice(commentAt), agent);
    const kind = kindOf(content, agent) ?? (isNamed ? "a secret" : undefined);
    if (kind !== undefined) secrets.push({ path: null, line: index + 1, kind });
  });
  return secrets;
};

const findInTree = (
  tree: Tree,
  agent: AgentKind,
  path: readonly (string | number)[],
): FoundSecret[] => {
  if (typeof tree === "string" || typeof tree === "number") {
    const name = path.findLast((part) => typeof part === "string");
    const value = String(tree);
    const isNamed =
      typeof name === "string" && secretName.test(name) && !refersToSecret[agent](value);
    const kind = kindOf(value, agent) ?? (isNamed ? "a secret" : undefined);
    return kind === undefined ? [] : [{ path, line: null, kind }];
  }
  if (tree === null || typeof tree !== "object") return [];
  const entries: [string | number, Tree][] = Array.isArray(tree)
    ? [...tree.entries()]
    : Object.entries(tree);
  return entries.flatMap(([key, value]) => findInTree(value, agent, [...path, key]));
};

const kindOf = (text: string, agent: AgentKind) => {
  const literal = agent === "otelcol" ? text.replace(otelcolReference, "") : text;
  return patterns.find(({ pattern }) => pattern.test(literal))?.kind;
};

const isNamedSecret = (comment: string, agent: AgentKind) => {
  const value = namedInText.exec(comment)?.[1];
  return value !== undefined && !refersToSecret[agent](value);
};
