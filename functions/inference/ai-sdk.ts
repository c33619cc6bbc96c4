import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  APICallError,
  type JSONValue,
  jsonSchema,
  type LanguageModel,
  type ModelMessage,
  streamText,
  type ToolSet,
  tool,
} from "ai";
import { fullJitterMs } from "#kit/backoff.ts";
import { type Clock, dayMs, TimedOut, withTimeout } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { JsonLimitError, jsonLimits, limitJson } from "#kit/foreign-json.ts";
import { readRetryAfter } from "#kit/retry-after.ts";
import { isToolName } from "#proto/chat/session.ts";
import type { InferenceConfig } from "../config/chat-config.ts";
import { Problem } from "../problems.ts";
import type { InferenceDependencies } from "./create-inference.ts";
import type { Inference, InferenceMessage, InferencePart, InferenceRequest } from "./inference.ts";

// The SDK would write its warnings to the console; they can quote a setting.
globalThis.AI_SDK_LOG_WARNINGS = false;

type SdkConfig = Exclude<InferenceConfig, { provider: "mock" }>;

/** The longest silence of a provider: while connecting, before the status, and between two parts. */
const idleMsMax = 20_000;
const retriesMax = 4;
/** Does not retry when a provider asks for a longer wait: a turn has 60 s. */
const retryAfterSecondsMax = 20;
/** A longer wait is reported as this. */
const retryAfterMsMax = 365 * dayMs;

/**
 * Creates a language model of a provider through the `ai` SDK. Each `stream` is one round: the SDK neither runs tools nor retries. A tool
 * call whose input is no JSON object is yielded with an empty input, which the tool rejects, so that the model can correct it; a call of an
 * unknown tool is `inference_failed`. The causes of `inference_failed` name the fault and hold no key, prompt or response body.
 */
export const createSdkInference = (
  config: SdkConfig,
  { clock, entropy, log }: InferenceDependencies,
): Inference => {
  const fetch = createProviderFetch(clock);
  const { provider } = config;
  return {
    provider,
    model: config.model,
    async *stream(request) {
      for (let attempt = 0; ; attempt++) {
        let yielded = false;
        try {
          // Each time with the newest key.
          for await (const part of streamRound(createModel(config, fetch), request, clock)) {
            yielded = true;
            yield part;
          }
          return;
        } catch (error) {
          request.signal.throwIfAborted();
          const fault = providerFaultOf(error, clock.now());
          const { retryAfterSeconds: asked } = fault;
          const jitterMs = () => fullJitterMs({ attempt, baseMs: 1_000, capMs: 8_000, entropy });
          const waitMs = asked === null ? jitterMs() : asked * 1_000;
          const isFinal =
            !fault.transient || attempt === retriesMax || waitMs > retryAfterSecondsMax * 1_000;
          if (yielded || isFinal) throw failureOf(fault);
          log.warn(
            { provider, fault: fault.message, retry_in_ms: waitMs },
            "the language model failed; core retries",
          );
          await clock.sleep(waitMs, request.signal);
        }
      }
    },
  };
};

const failureOf = (cause: ReturnType<typeof providerFaultOf>): Problem => {
  const { retryAfterSeconds } = cause;
  const wait = retryAfterSeconds === null ? {} : { retryAfterSeconds };
  return new Problem("inference_failed", { cause, ...wait });
};

const createModel = (config: SdkConfig, fetch: typeof globalThis.fetch): LanguageModel => {
  const apiKey = config.apiKey.reveal();
  // Always explicit, since the SDK would otherwise read the base URL from variables of its own.
  switch (config.provider) {
    case "openai":
      return createOpenAI({
        apiKey,
        baseURL: config.baseUrl ?? "https://api.openai.com/v1",
        fetch,
      }).chat(config.model);
    case "anthropic":
      return createAnthropic({
        apiKey,
        baseURL: config.baseUrl ?? "https://api.anthropic.com/v1",
        fetch,
      })(config.model);
    default:
      return createOpenAICompatible({
        name: config.provider,
        apiKey,
        baseURL: config.baseUrl,
        fetch,
      })(config.model);
  }
};

async function* streamRound(
  model: LanguageModel,
  { system, messages, tools, signal }: InferenceRequest,
  clock: InferenceDependencies["clock"],
): AsyncGenerator<InferencePart> {
  const stopped = new AbortController();
  const { fullStream } = streamText({
    model,
    instructions: system,
    messages: messages.flatMap(toModelMessage),
    ...(tools.length > 0 ? { tools: toToolSet(tools) } : withoutTools(messages)),
    maxRetries: 0,
    abortSignal: AbortSignal.any([signal, stopped.signal]),
    telemetry: { isEnabled: false },
    // Without this, the SDK writes errors to the console.
    onError: () => undefined,
  });
  const parts = fullStream[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value: part } = await withTimeout(idleMsMax, clock, parts.next());
      if (done) throw new ProviderFault("the stream ended early");
      if (part.type === "text-delta" && part.text !== "") yield { type: "text", text: part.text };
      else if (part.type === "tool-call") yield toToolCall(part);
      else if (part.type === "error") throw part.error;
      else if (part.type === "abort") throw new ProviderFault("the stream was aborted");
      else if (part.type === "finish") {
        if (!["stop", "tool-calls", "length"].includes(part.finishReason))
          throw new ProviderFault(`the model stopped because of ${part.finishReason}`);
        return;
      }
    }
  } finally {
    stopped.abort();
  }
}

const toToolSet = (tools: InferenceRequest["tools"]): ToolSet =>
  Object.fromEntries(
    tools.map(({ name, description, parameters }) => [
      name,
      tool({ description, inputSchema: jsonSchema(parameters) }),
    ]),
  );

/**
 * Declares the tools that a conversation has used, without allowing them: providers reject conversations with calls of undeclared tools.
 */
const withoutTools = (
  messages: readonly InferenceMessage[],
): { tools?: ToolSet; toolChoice?: "none" } => {
  const used = messages.flatMap((message) =>
    message.role === "tool" ? message.results.map(({ name }) => name) : [],
  );
  if (used.length === 0) return {};
  const parameters = { type: "object" };
  return {
    tools: toToolSet(used.map((name) => ({ name, description: "Not available now.", parameters }))),
    toolChoice: "none",
  };
};

const toToolCall = (call: {
  toolCallId: string;
  toolName: string;
  input: unknown;
}): InferencePart => {
  if (!isToolName(call.toolName)) throw new ProviderFault("the model called an unknown tool");
  const { input } = call;
  return {
    type: "tool_call",
    callId: call.toolCallId,
    name: call.toolName,
    input:
      typeof input === "object" && input !== null && !Array.isArray(input)
        ? (input as Record<string, unknown>)
        : {},
  };
};

const toModelMessage = (message: InferenceMessage): ModelMessage[] => {
  switch (message.role) {
    case "user":
      return [{ role: "user", content: message.text }];
    case "assistant": {
      const content = message.parts
        .filter((part) => part.type !== "text" || part.text.trim() !== "")
        .map((part) =>
          part.type === "text"
            ? part
            : {
                type: "tool-call" as const,
                toolCallId: part.callId,
                toolName: part.name,
                input: part.input,
              },
        );
      return content.length > 0 ? [{ role: "assistant", content }] : [];
    }
    case "tool":
      return [
        {
          role: "tool",
          content: message.results.map(({ callId, name, result }) => ({
            type: "tool-result" as const,
            toolCallId: callId,
            toolName: name,
            output: {
              type: result.kind === "error" ? ("error-json" as const) : ("json" as const),
              value: result as JSONValue,
            },
          })),
        },
      ];
  }
};

/** A fault of a provider, in words that hold no key, prompt or response body. */
class ProviderFault extends Error {
  override readonly name = "ProviderFault";
  /** Whether the same request may succeed later: 429 and 5xx. */
  readonly transient: boolean;
  /** The wait that the provider asks for by `Retry-After`; null without one. */
  readonly retryAfterSeconds: number | null;

  constructor(
    message: string,
    { status, retryAfter }: { status?: number; retryAfter?: number | null } = {},
  ) {
    super(message);
    this.transient = status === 429 || (status !== undefined && status >= 500);
    this.retryAfterSeconds = retryAfter ?? null;
  }
}

/**
 * Returns the `fetch` of a provider's SDK. Limits the JSON of a response, follows no redirect, and throws a `ProviderFault` for every
 * status but 2xx without reading the body, which may never end and may quote the key or the prompt.
 */
const createProviderFetch =
  (clock: Pick<Clock, "now">): typeof fetch =>
  async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    if (response.ok) return limitJson(response, jsonLimits.modelAnswer);
    await response.body?.cancel();
    const retryAfter = response.headers.get("Retry-After") ?? undefined;
    throw statusFault(response.status, retryAfter, clock.now());
  };

/** Converts an error of the SDK or of `fetch` to a fault of the provider. */
const providerFaultOf = (error: unknown, now: number): ProviderFault => {
  if (error instanceof ProviderFault) return error;
  if (error instanceof TimedOut)
    return new ProviderFault(`the provider was silent: ${error.message}`);
  // A provider that fails after the status 200 reports it in its stream; the SDK converts this to a status.
  if (APICallError.isInstance(error) && error.statusCode !== undefined && error.statusCode !== 200)
    return statusFault(error.statusCode, error.responseHeaders?.["retry-after"], now);
  const { cause } = Object(error) as Error;
  if (cause instanceof JsonLimitError) return new ProviderFault(cause.message);
  const code = codeOf(error);
  return code === undefined
    ? new ProviderFault(
        `the stream is not valid (${error instanceof Error ? error.name : typeof error})`,
      )
    : new ProviderFault(`the connection failed (${code})`);
};

const statusFault = (
  status: number,
  retryAfter: string | undefined,
  now: number,
): ProviderFault => {
  const waitMs = readRetryAfter(retryAfter, now, retryAfterMsMax);
  // In workerd, `redirect: "manual"` returns the redirect; elsewhere a response of type `opaqueredirect` with status 0.
  const redirected = status === 0 || (status >= 300 && status < 400);
  return new ProviderFault(
    redirected ? "the provider redirected" : `the provider answered HTTP ${status}`,
    { status, retryAfter: waitMs === null ? null : Math.ceil(waitMs / 1_000) },
  );
};

const codeOf = (error: unknown, depth = 0): string | undefined =>
  errorCode(error) ??
  (error instanceof Error && depth < 5 ? codeOf(error.cause, depth + 1) : undefined);
