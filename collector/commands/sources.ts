import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { fileFault } from "#kit/describe-error.ts";
import type { CollectorConfig, ProcessorConfig } from "#proto/collector-config/parse.ts";
import { defaultConfigPath, loadConfig, sourceSettings } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { createRules } from "../processors/apply-rules.ts";
import { batchRecords } from "../queue/envelope.ts";
import type { NewRecord, RuledRecords } from "../queue/record.ts";
import { matches } from "../sources/file/walk.ts";
import { commandFailure, configFailure, defineCommand, exitCode, usageFailure } from "./command.ts";

/** So much of a file is tried. */
const sampleCharactersMax = 4 * 1024 * 1024;
/** From this share of a sample on, a rule that drops may drop more than was meant. */
const warnedPercent = 90;

/** `sources test FILE`: prints what the rules of a config leave of a file's lines. Changes nothing. */
export const sourcesCommand = defineCommand({
  usage: `  test <file>       print what would be sent of the lines of a file, or of stdin for -, and what each rule took
  --config <path>   the config (default ${defaultConfigPath})
  --json            one JSON object on stdout: {ok, lines, sent, rules: [{name, dropped, redacted}], warnings}

Each of the first 4 MiB of lines is a record. The rules are those of the config, and of its file source that reads this file.
Neither core nor a queue is needed.
`,
  flags: { config: "text" },
  operands: true,
  run: async (flags, env, _progress, [verb, file, ...others]) => {
    if (verb !== "test" || file === undefined || others.length > 0)
      throw usageFailure("write: sources test <file>, or - for stdin");
    const { path, config } = await loadRules(flags.config, env);
    const processors = rulesFor(resolve(file), { path, config });
    const apply = await createRules(processors, { hasRequests: false });
    const records = await readLines(file, env);
    const { batch, ruled } = apply(batchRecords(records));
    const sent = Array.from({ length: batch.count }, (_, index) =>
      new TextDecoder().decode(batch.recordAt(index).payload),
    );
    const rules = processors.map(({ name }) => countsOf(name, ruled));
    const warnings = warningsOf(rules, records.length);
    const summary = [
      `sent: ${sent.length} of ${records.length} lines`,
      ...rules.map(
        ({ name, dropped, redacted }) => `rule ${name}: ${dropped} dropped, ${redacted} redacted`,
      ),
      ...warnings.map((warning) => `warning: ${warning}`),
    ];
    return {
      exitCode: exitCode.done,
      lines: [],
      text: [...sent, "", ...summary, ""].join("\n"),
      json: { ok: true, lines: records.length, sent, rules, warnings },
    };
  },
});

/** Loads a config whose rules are valid. What else it names, such as credentials, may be missing here. */
const loadRules = async (configPath: string | undefined, env: CollectorEnv) => {
  const loaded = await loadConfig(configPath, env);
  const { path, config } = loaded;
  const errors = loaded.errors.filter((error) => error.path.includes("processors"));
  if (config === undefined || errors.length > 0)
    throw configFailure(config === undefined ? loaded : { ...loaded, errors });
  return { path, config };
};

/** Returns the rules of the file source that reads a path, or else those of all sources. */
const rulesFor = (
  file: string,
  loaded: { path: string; config: CollectorConfig },
): readonly ProcessorConfig[] => {
  const source = sourceSettings(loaded).find(
    (settings) => settings.type === "file" && matches(settings, file),
  );
  return source?.processors ?? loaded.config.processors;
};

const readLines = async (file: string, { clock, stdin }: CollectorEnv): Promise<NewRecord[]> => {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of file === "-" ? stdin : createReadStream(file)) {
      text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
      if (text.length >= sampleCharactersMax) break;
    }
  } catch (cause) {
    throw commandFailure("file_unreadable", `the file ${fileFault(cause)}`, { cause });
  }
  const lines = text.slice(0, sampleCharactersMax).split(/\r?\n/);
  // The text behind the last line end: nothing, or a line that was cut.
  if (lines.at(-1) === "" || text.length >= sampleCharactersMax) lines.pop();
  const attributes = { "file.path": resolve(file), "file.offset": "0" };
  return lines.map((line) => ({
    kind: "log_line",
    observedAtMs: clock.now(),
    source: "file",
    attributes,
    payload: Buffer.from(line),
  }));
};

interface RuleResult {
  name: string;
  dropped: number;
  redacted: number;
}

const countsOf = (name: string, { filtered, redacted }: RuledRecords): RuleResult => {
  const recordsOf = (counts: RuledRecords["filtered"]) =>
    counts.find(({ rule }) => rule === name)?.records ?? 0;
  return { name, dropped: recordsOf(filtered), redacted: recordsOf(redacted) };
};

const warningsOf = (rules: readonly RuleResult[], lines: number): string[] => {
  let reached = lines;
  return rules.flatMap(({ name, dropped }) => {
    const percent = Math.floor((100 * dropped) / Math.max(1, reached));
    const sample = reached === lines ? "this sample" : "the rest of this sample";
    reached -= dropped;
    return percent < warnedPercent ? [] : [`rule ${name} drops ${percent} % of ${sample}`];
  });
};
