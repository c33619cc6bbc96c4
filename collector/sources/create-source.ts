import type { SourceConfig } from "../../proto/collector-config/parse.ts";
import { createFileSource, type FileSourceDependencies } from "./file/file-source.ts";
import { createHostMetricsSource } from "./host-metrics/host-metrics-source.ts";
import { createOtlpSource } from "./otlp/otlp-source.ts";
import type { Source } from "./source.ts";

/** The source that a config entry asks for. */
export const createSource = (config: SourceConfig, dependencies: FileSourceDependencies): Source => {
  switch (config.type) {
    case "otlp":
      return createOtlpSource(config, dependencies);
    case "file":
      return createFileSource(config, dependencies);
    case "host_metrics":
      return createHostMetricsSource(config, dependencies);
  }
};
