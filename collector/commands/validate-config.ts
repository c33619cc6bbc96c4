import {
  defaultConfigPath,
  describeConfigError,
  type LoadedConfig,
  loadConfig,
  sourceSettings,
} from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { createMounts } from "../files/mounts.ts";
import { trustWarnings } from "../runtime/bundle-renewal.ts";
import { inspectFiles } from "../sources/file/inspect.ts";
import { createSourceFiles } from "../sources/file/source-files.ts";
import { describeWarning } from "../sources/source.ts";
import { syslogWarnings } from "../sources/syslog/syslog-source.ts";
import { defineCommand, exitCode } from "./command.ts";

/**
 * `validate-config`: exits with 0 and prints the hash, or with 78 and every error with its position. Also prints what file sources would warn of.
 * Changes nothing.
 */
export const validateConfigCommand = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
  --json            one JSON object on stdout: {ok, errors: [{path, line, column, message}],
                    warnings: [{path, line, column, message, code, count}], running_config_hash}
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    const loaded = await loadConfig(flags.config, env);
    const { errors, runningConfigHash } = loaded;
    const ok = errors.length === 0;
    const warnings = await findWarnings(loaded, env);
    return {
      exitCode: ok ? exitCode.done : exitCode.config,
      lines: [
        ...(ok ? ["the config is valid"] : errors.map(describeConfigError)),
        ...warnings.map((warning) => `warning: ${describeConfigError(warning)}`),
      ],
      json: { ok, errors, warnings, running_config_hash: runningConfigHash },
    };
  },
});

/** Returns what a config would warn of: at the section of a CA bundle, at a pattern of a file source, or at the source. */
const findWarnings = async (
  { path, config, errorAt, trust }: LoadedConfig,
  { clock }: Pick<CollectorEnv, "clock">,
) => {
  if (config === undefined || errorAt === undefined) return [];
  const bundles = trustWarnings(trust).map((warning) => {
    const { code, count } = warning;
    return { ...errorAt(["management"], describeWarning(warning)), code, count };
  });
  const files = createSourceFiles(createMounts(clock));
  const inspections = [];
  for (const [index, source] of sourceSettings({ path, config }).entries())
    if (source.type === "file")
      inspections.push({ index, source, ...(await inspectFiles(source, { files, clock })) });
  const warnings = inspections.flatMap(({ index, source, warnings }) =>
    warnings().map((warning) => {
      const pattern = source.include.indexOf(warning.path);
      const at = ["sources", index, ...(pattern === -1 ? [] : ["include", pattern])];
      const { code, count } = warning;
      return { ...errorAt(at, describeWarning(warning)), code, count };
    }),
  );
  for (const { close } of inspections) await close();
  const listening = config.sources.flatMap((source, index) =>
    source.type !== "syslog"
      ? []
      : syslogWarnings(source).map((warning) => {
          const { code, count } = warning;
          return { ...errorAt(["sources", index], describeWarning(warning)), code, count };
        }),
  );
  return [...bundles, ...warnings, ...listening];
};
