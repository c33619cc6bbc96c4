import type { TracesConfig } from "./config.ts";
import { type TracedService, type Tracer, untraced } from "./tracer.ts";

/** Returns the tracer of a configuration. Imports OpenTelemetry's SDK only if there is one. */
export const createTracer = async (
  config: TracesConfig | null,
  service: TracedService,
): Promise<Tracer> => {
  if (config === null) return untraced;
  const { createOtlpTracer } = await import("./otlp-tracer.ts");
  return createOtlpTracer(config, service);
};
