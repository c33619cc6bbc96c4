import type { ToolName, ToolResult } from "#proto/chat/session.ts";

/** A piece of a model's output: text as it arrives, or a complete tool call. */
export type InferencePart =
  | { type: "text"; text: string }
  | { type: "tool_call"; callId: string; name: ToolName; input: Record<string, unknown> };

/** A message to the model, in the order of the conversation. Each tool call of an assistant's message is followed by its result. */
export type InferenceMessage =
  | { role: "user"; text: string }
  | { role: "assistant"; parts: readonly InferencePart[] }
  | { role: "tool"; results: readonly { callId: string; name: ToolName; result: ToolResult }[] };

/** A tool that the model may call. `parameters` is a JSON Schema of the input. */
export interface InferenceTool {
  name: ToolName;
  description: string;
  parameters: Readonly<Record<string, unknown>>;
}

/** One round of a turn. */
export interface InferenceRequest {
  system: string;
  messages: readonly InferenceMessage[];
  /** Empty when the SQL tools are off or the turn has used its rounds. */
  tools: readonly InferenceTool[];
  signal: AbortSignal;
}

/** A language model. */
export interface Inference {
  provider: "openai" | "openai-compatible" | "litellm" | "anthropic" | "mock";
  model: string;
  /**
   * Streams one round: ends when the model stops or waits for the results of its tool calls. Throws the signal's reason when aborted, and
   * `inference_failed` for every fault of the provider, after retrying 429 and 5xx while nothing has been yielded and the signal allows.
   */
  stream(request: InferenceRequest): AsyncIterable<InferencePart>;
}
