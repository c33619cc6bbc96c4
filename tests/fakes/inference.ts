import type { Inference, InferencePart, InferenceRequest } from "#functions/inference/inference.ts";

/** One round of a model that a test plays. */
export interface PlayedRound {
  request: InferenceRequest;
  text(text: string): void;
  call(
    name: "list_tables" | "describe_table" | "query_sql",
    input: Record<string, unknown>,
    callId?: string,
  ): void;
  /** Ends the round. */
  end(): void;
  /** Fails the round. */
  fail(error: unknown): void;
}

/** A model whose rounds a test plays; like a real one it throws the reason of the request's signal. */
export interface PlayedInference extends Inference {
  /** Resolves with the next round that core begins. */
  round(): Promise<PlayedRound>;
}

/** Creates a model without rounds. */
export const createPlayedInference = (): PlayedInference => {
  const begun: PlayedRound[] = [];
  let arrived = Promise.withResolvers<void>();
  let calls = 0;
  return {
    provider: "mock",
    model: "played",
    async *stream(request) {
      const parts: (InferencePart | { error: unknown } | null)[] = [];
      let changed = Promise.withResolvers<void>();
      const add = (part: (typeof parts)[number]): void => {
        parts.push(part);
        changed.resolve();
        changed = Promise.withResolvers();
      };
      begun.push({
        request,
        text: (text) => add({ type: "text", text }),
        call: (name, input, callId = `call_${++calls}`) =>
          add({ type: "tool_call", callId, name, input }),
        end: () => add(null),
        fail: (error) => add({ error }),
      });
      arrived.resolve();
      arrived = Promise.withResolvers();
      const aborted = new Promise<never>((_, reject) => {
        request.signal.addEventListener("abort", () => reject(request.signal.reason));
      });
      aborted.catch(() => undefined);
      for (;;) {
        request.signal.throwIfAborted();
        const part = parts.shift();
        if (part === null) return;
        if (part === undefined) await Promise.race([changed.promise, aborted]);
        else if ("error" in part) throw part.error;
        else yield part;
      }
    },
    round: async () => {
      for (;;) {
        const round = begun.shift();
        if (round !== undefined) return round;
        await arrived.promise;
      }
    },
  };
};
