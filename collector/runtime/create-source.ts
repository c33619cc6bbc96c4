import type { SourceConfig } from "../../proto/collector-config/parse.ts";
import { createFileSource, type FileSourceDependencies } from "../sources/file/file-source.ts";
import { createHostMetricsSource } from "../sources/host-metrics/host-metrics-source.ts";
import { createOtlpSource } from "../sources/otlp/otlp-source.ts";
import type { Source } from "../sources/source.ts";

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
