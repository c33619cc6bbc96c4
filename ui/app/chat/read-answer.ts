import { createParser } from "eventsource-parser";
import { type ChatEvent, type ChatEventName, chatEvents } from "#proto/chat/events.ts";
import { resultBytesMax } from "#proto/chat/tools.ts";
import { ApiProblem, parseAnswer } from "../api/api-client.ts";

/** Room for the largest result with its escapes. */
const eventCharactersMax = 8 * resultBytesMax;

const connectionLost = () =>
  new ApiProblem({ code: "connection_lost", status: 0, message: "The connection was lost" });

/**
 * Yields the events of an answer as they arrive, `done` or `error` last. Throws an `ApiProblem`: `connection_lost` when the stream ends
 * before that, `unreadable` for an event that does not match its schema. Skips events with names that only a newer core sends.
 */
export async function* readAnswer(
  response: Response,
  signal: AbortSignal,
): AsyncGenerator<ChatEvent> {
  const arrived: ChatEvent[] = [];
  const parser = createParser({
    maxBufferSize: eventCharactersMax,
    onEvent: ({ event: name = "", data }) => {
      if (!Object.hasOwn(chatEvents, name)) return;
      const event = name as ChatEventName;
      arrived.push({
        event,
        data: parseAnswer(chatEvents[event], parseJson(data), response),
      } as ChatEvent);
    },
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") throw connectionLost();
    },
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const chunk = await reader?.read().catch(() => undefined);
      signal.throwIfAborted();
      if (chunk === undefined || chunk.done) throw connectionLost();
      parser.feed(chunk.value);
      for (const event of arrived.splice(0)) {
        yield event;
        if (event.event === "done" || event.event === "error") return;
      }
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
