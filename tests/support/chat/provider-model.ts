import { afterEach, expect } from "vitest";
import type { InferenceConfig } from "#functions/config/chat-config.ts";
import { createInference } from "#functions/inference/create-inference.ts";
import type { InferencePart, InferenceRequest } from "#functions/inference/inference.ts";
import { Problem } from "#functions/problems.ts";
import { Secret } from "#kit/secret.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import {
  type ModelProvider,
  type ScriptedReply,
  startModelProvider,
} from "#tests/fakes/model-provider.ts";

const providers: ModelProvider[] = [];
afterEach(() => Promise.all(providers.splice(0).map((provider) => provider.close())));

const prompt = "which hosts are stale, prompt-7d1f";

/** A model of a scripted provider. `start` begins a round; its `parts` grow as they arrive. */
export const setUpProvider = async (
  name: Exclude<InferenceConfig["provider"], "mock">,
  script: readonly ScriptedReply[],
) => {
  const provider = await startModelProvider(name === "anthropic" ? "anthropic" : "openai", script);
  providers.push(provider);
  const clock = createTestClock();
  const log = createTestLog();
  const config = {
    provider: name,
    model: "fake-model",
    apiKey: new Secret(provider.key),
    baseUrl: provider.baseUrl,
  };
  const model = await createInference(config, { clock, entropy: createSeededEntropy(), log });
  const start = (changes: Partial<InferenceRequest> = {}) => {
    const parts: InferencePart[] = [];
    const request: InferenceRequest = {
      system: "You answer briefly.",
      messages: [{ role: "user", text: prompt }],
      tools: [
        {
          name: "query_sql",
          description: "Runs one SELECT.",
          parameters: {
            type: "object",
            properties: { statement: { type: "string" } },
            required: ["statement"],
          },
        },
      ],
      signal: new AbortController().signal,
      ...changes,
    };
    const ended = (async () => {
      for await (const part of model.stream(request)) parts.push(part);
    })();
    ended.catch(() => undefined);
    return { parts, ended };
  };
  return { provider, clock, log, model, start };
};

/** Returns the text of parts. */
export const textOf = (parts: readonly InferencePart[]): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("");

/** Returns the `inference_failed` that a round ended with, after checking that neither it nor the log holds a secret. */
export const failureOf = async (ended: Promise<void>, log: ReturnType<typeof createTestLog>) => {
  const problem = await ended.then(
    () => expect.unreachable("the round succeeded"),
    (error: unknown) => error,
  );
  if (!(problem instanceof Problem)) throw problem;
  expect(problem.code).toBe("inference_failed");
  log.error({ err: problem, cause: problem.cause }, "failed");
  expect(log.text()).not.toMatch(/c0ffee|prompt-7d1f|secret-in-body|scripted/);
  return problem;
};

/** Returns what the log says of a failure. */
export const causeOf = (problem: Problem): string => (problem.cause as Error).message;
