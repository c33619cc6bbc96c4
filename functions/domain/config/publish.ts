import { uuidv7 } from "../../../kit/entropy.ts";
import type { FieldError } from "../../../kit/problem.ts";
import { hasPlainDirectories } from "../../../proto/collector-config/file-patterns.ts";
import { hashTree } from "../../../proto/collector-config/hash.ts";
import { validateCollectorConfig } from "../../../proto/collector-config/parse.ts";
import {
  configBytesMax,
  configErrorsMax,
  parseTree,
} from "../../../proto/collector-config/tree.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type ConfigRow, insertConfig } from "../../store/config/configs.ts";
import { type Origin, recordOperatorAction } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import { findSecrets } from "./find-secrets.ts";

/** Stores a checked config, byte for byte. Publishing the same text again creates another config. */
export const publishConfig = async (
  core: Pick<Core, "db" | "clock" | "entropy">,
  operator: Operator,
  { name, config }: { name: string | null; config: CheckedConfig },
  origin: Origin,
): Promise<ConfigRow> =>
  core.db.transaction(async (tx) => {
    const row: ConfigRow = {
      ...config,
      id: uuidv7(core),
      name,
      createdAt: new Date(core.clock.now()),
      createdBy: operator.userId,
    };
    await insertConfig(tx, row);
    await recordOperatorAction(tx, core, operator, origin, {
      action: "config.publish",
      target: { type: "collector_config", id: row.id },
      details: { name, config_hash: row.configHash, size_bytes: row.sizeBytes },
    });
    return row;
  });

/** A config that may be published. */
export interface CheckedConfig {
  yaml: string;
  configHash: string;
  sizeBytes: number;
}

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
  // A YAML parser accepts NUL in a comment, and the database rejects it.
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
  const composed = parsed.config.sources.flatMap((source, index) =>
    source.type !== "file"
      ? []
      : source.include.flatMap((pattern, at) =>
          hasPlainDirectories(pattern)
            ? []
            : [parsed.errorAt(["sources", index, "include", at], composedMessage)],
        ),
  );
  if (composed.length > 0) throw invalid(composed);
  if (Object.keys(parsed.config.labels).length > 0)
    throw invalid([parsed.errorAt(["labels"], labelsMessage, "key")]);
  const hash = await hashTree(tree);
  if (hash === null) throw invalid([{ path: "", message: "has no hash" }]);
  return { yaml, configHash: hash, sizeBytes };
};

const labelsMessage =
  "belongs to one host: set labels in the host's own config or in its enrollment policy";

const composedMessage =
  "must name its directories without braces, classes, groups, backslashes and ..";

const invalid = (errors: readonly FieldError[]): Problem =>
  new Problem("config_invalid", { errors });
