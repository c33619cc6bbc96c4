import { EventSourceParserStream } from "eventsource-parser/stream";
import * as v from "valibot";
import type { ReceiptFile } from "#proto/chat/receipt.ts";
import type { ChatConversation } from "#proto/chat/session.ts";
import { type ChatEvent, chatEvents } from "#proto/chat/session.ts";
import { verifyReceipts } from "#proto/chat/verify-receipts.ts";
import type { PersonName } from "#scripts/lab/people.ts";
import type { TestCore } from "../core.ts";

/** Creates a conversation of the auditor. */
export const createTestConversation = async (test: TestCore, as: PersonName = "auditor") => {
  const { body } = await test.api<{ id: string }>("POST", "/v1/chat/sessions", { as });
  const path = `/v1/chat/sessions/${body.id}`;
  return {
    id: body.id,
    path,
    ask: async (
      content: string,
      { as: asker = as, signal }: { as?: PersonName; signal?: AbortSignal } = {},
    ) => {
      const request = new Request(new URL(`${path}/messages`, "http://core.test"), {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          Authorization: `Bearer ${await test.bridgeToken(asker)}`,
        },
        body: JSON.stringify({ content }),
        ...(signal ? { signal } : {}),
      });
      return openAnswer(await test.fetch(request));
    },
    /** The conversation as the API shows it. */
    read: async () =>
      (await test.api<v.InferOutput<typeof ChatConversation>>("GET", path, { as })).body,
    /** The kinds of its receipts, after verifying them. */
    receipts: async () => {
      const { body: file } = await test.api<ReceiptFile>("GET", `${path}/receipts`, { as });
      const { fault } = await verifyReceipts(file);
      if (fault !== null) throw new Error(`receipt ${fault.seq} does not verify: ${fault.kind}`);
      return { kinds: file.items.map(({ kind }) => kind), file };
    },
  };
};

const openAnswer = (response: Response) => {
  const reader = response.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader();
  const next = async (): Promise<ChatEvent | null> => {
    const read = await reader?.read();
    if (read?.value === undefined) return null;
    const { event = "", data } = read.value;
    const schema = (chatEvents as Record<string, v.GenericSchema>)[event];
    if (schema === undefined) throw new Error(`unknown event ${event}`);
    return { event, data: v.parse(schema, JSON.parse(data)) } as ChatEvent;
  };
  return {
    status: response.status,
    headers: response.headers,
    /** Returns the next event; null at the end. */
    next,
    /** Returns all further events. */
    rest: async () => {
      const events: ChatEvent[] = [];
      for (let event = await next(); event !== null; event = await next()) events.push(event);
      return events;
    },
    /** Disconnects. */
    disconnect: async () => reader?.cancel(),
  };
};

/** Returns the text of an answer's events. */
export const textOfEvents = (events: readonly ChatEvent[]): string =>
  events.map((event) => (event.event === "text_delta" ? event.data.text : "")).join("");

/** Returns the names of events, without repeated `text_delta`. */
export const namesOf = (events: readonly ChatEvent[]): string[] =>
  events
    .map(({ event }) => event)
    .filter((name, at, all) => name !== "text_delta" || all[at - 1] !== name);
