import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { InferenceConfig } from "../config/chat-config.ts";
import { createMockInference } from "./create-mock-inference.ts";
import type { Inference } from "./inference.ts";

/** What a language model needs besides its configuration. */
export interface InferenceDependencies {
  clock: Pick<Clock, "now" | "sleep">;
  entropy: Entropy;
  log: Pick<Log, "warn">;
}

/** Returns the configured language model. Loads the SDK of the providers only when one is configured. Calls no provider. */
export const createInference = async (
  config: InferenceConfig,
  dependencies: InferenceDependencies,
): Promise<Inference> => {
  if (config.provider === "mock") return createMockInference(config.model);
  const { createSdkInference } = await import("./ai-sdk.ts");
  return createSdkInference(config, dependencies);
};
