import type { CollectorConfig } from "../../proto/collector-config/parse.ts";
import type { ConfigTextError, ParsedTree } from "../../proto/collector-config/tree.ts";

/** Errors for what the schema knows and this version cannot do: better refused than silently ignored. */
export const unsupportedFeatures = (config: CollectorConfig, errorAt: ParsedTree["errorAt"]): ConfigTextError[] => {
  const errors = config.sources.flatMap((source, index) =>
    source.type === "host_metrics"
      ? [errorAt(["sources", index, "type"], "host_metrics is not supported by this version")]
      : [],
  );
  if (config.management.applyDesiredConfig)
    errors.push(errorAt(["management", "apply_desired_config"], "true is not supported by this version"));
  return errors;
};
