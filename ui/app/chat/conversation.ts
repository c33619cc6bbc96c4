import { createParser } from "eventsource-parser";
import { batch, createSignal } from "solid-js";
import type { Receipt } from "#proto/chat/receipt.ts";
import {
  ChatConversation,
  type ChatEvent,
  type ChatEventName,
  type ChatMessage,
  ChatSession,
  chatEvents,
  type MessagePart,
  resultBytesMax,
} from "#proto/chat/session.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import { type ApiClient, ApiProblem, caughtProblem, parseAnswer } from "../api/api-client.ts";
import { keepText, readKeptText } from "../browser/kept-text.ts";
import { withEvent } from "./answer-parts.ts";

/** The path of conversations. */
export const sessionsPath = "/api/core/chat/sessions";

/** A message as the page shows it. Its id is empty until core has reported it. */
export interface ShownMessage extends Pick<ChatMessage, "id" | "role" | "status"> {
  parts: readonly MessagePart[];
  /** Why the answer failed. */
  problem?: ApiProblem;
  /** Core has not stored the question. */
  undelivered?: boolean;
}

/** Observes a conversation, for announcements and lists. */
export interface ConversationObserver {
  /** Core has stored the conversation. */
  created(id: string): void;
  event(event: ChatEvent): void;
  /** An answer ended: as a whole, stopped, or with a problem. */
  ended(answer: ShownMessage): void;
}

/**
 * A conversation of the page. Invariants: at most one answer streams at a time; the received part of an answer stays, also when its stream ends
 * early; core's record replaces an answer whose end this page did not receive.
 */
export type Conversation = ReturnType<typeof createConversationView>;

/** How often, and how many times, the page requests an answer that another page or an aborted request began. */
const settleMs = 1000;
const settleTries = 8;

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

/** Creates a conversation: a stored one by its id, or a new one. */
export const createConversationView = (
  { api, observer }: { api: ApiClient; observer: ConversationObserver },
  storedId?: string,
) => {
  /** Undefined until the first question is stored. */
  const [id, setId] = createSignal(storedId);
  const [title, setTitle] = createSignal<string | null>(null);
  const [messages, setMessages] = createSignal<readonly ShownMessage[]>([]);
  /** The receipts that arrived with answers. */
  const [receipts, setReceipts] = createSignal<readonly Receipt[]>([]);
  const [answering, setAnswering] = createSignal(false);
  /** The conversation has been read from core, or is new. */
  const [loaded, setLoaded] = createSignal(storedId === undefined);
  /** Why it could not be read. */
  const [problem, setProblem] = createSignal<ApiProblem>();
  /** The text of the next question. */
  const [draft, setDraftSignal] = createSignal(readKeptText("draft", storedId ?? "new") ?? "");
  /** Keeps it in this tab as well, so that a new sign-in loses nothing. */
  const setDraft = (text: string) => {
    setDraftSignal(text);
    keepText("draft", id() ?? "new", text);
  };
  let stream: AbortController | undefined;

  const changeAnswer = (change: (answer: ShownMessage) => ShownMessage) =>
    setMessages((all) =>
      all.map((each, index) => (index === all.length - 1 ? change(each) : each)),
    );

  const read = async () => {
    const stored = await api.get(`${sessionsPath}/${id()}`, ChatConversation);
    if (answering()) return;
    batch(() => {
      setTitle(stored.title);
      setMessages((before) =>
        stored.messages.map((message, index) => {
          const known = before[index]?.problem;
          return known && message.role === "assistant" ? { ...message, problem: known } : message;
        }),
      );
      setLoaded(true);
      setProblem(undefined);
    });
  };

  /** Waits until core has closed the last answer, and until a question asked meanwhile has its answer: both get their badges. */
  const settle = async (tries = settleTries) => {
    await new Promise((resolve) => setTimeout(resolve, settleMs));
    if (answering()) return settle(tries);
    // When core does not answer, the page keeps what it has.
    await read().catch(() => undefined);
    if (tries > 1 && messages().at(-1)?.status === "answering") await settle(tries - 1);
  };

  /** Reads the conversation from core. */
  const load = async () => {
    setProblem(undefined);
    try {
      await read();
    } catch (failure) {
      setProblem(caughtProblem(failure));
      return;
    }
    if (messages().at(-1)?.status === "answering") void settle();
  };

  const receive = (event: ChatEvent) => {
    observer.event(event);
    const { event: name, data } = event;
    if (name === "receipt") setReceipts((before) => [...before, data]);
    else if (name === "done")
      changeAnswer((answer) => ({ ...answer, id: data.message_id, status: data.status }));
    else if (name === "error") throw problemOf(data);
    else changeAnswer((answer) => ({ ...answer, parts: withEvent(answer.parts, event) }));
  };

  /** Stores the conversation unless it is, sends the question, and receives the answer. Calls `onStored` once core has the question. */
  const exchange = async (question: string, signal: AbortSignal, onStored: () => void) => {
    if (id() === undefined) {
      const response = await api.send(sessionsPath, { method: "POST", body: {}, signal });
      const created = parseAnswer(ChatSession, await response.json(), response);
      setId(created.id);
      observer.created(created.id);
    }
    const path = `${sessionsPath}/${id()}/messages`;
    const body = { content: question };
    const response = await api.send(path, { method: "POST", body, signal });
    onStored();
    for await (const event of readAnswer(response, signal)) receive(event);
    if (title() === null) setTitle(question.trim().slice(0, 80));
  };

  const ask = async (question: string) => {
    const controller = new AbortController();
    stream = controller;
    const { signal } = controller;
    let stored = false;
    batch(() => {
      setAnswering(true);
      setMessages((before) => [
        ...before,
        { id: "", role: "user", status: "complete", parts: [{ type: "text", text: question }] },
        { id: "", role: "assistant", status: "answering", parts: [] },
      ]);
    });
    try {
      await exchange(question, signal, () => {
        stored = true;
      });
    } catch (failure) {
      if (signal.aborted) changeAnswer((answer) => ({ ...answer, status: "aborted" }));
      else if (failure instanceof ApiProblem) {
        // Core stores the question before it asks the model.
        stored ||= failure.code === ("inference_failed" satisfies CoreProblemCode);
        // The new sign-in leaves the page.
        if (failure.status === 401 && draft() === "") setDraft(question);
        changeAnswer((answer) => ({
          ...answer,
          status: "failed",
          problem: failure,
          undelivered: !stored,
        }));
      } else throw failure;
    } finally {
      const answer = messages().at(-1);
      setAnswering(false);
      if (answer?.status === "answering") changeAnswer((each) => ({ ...each, status: "failed" }));
      const last = messages().at(-1);
      if (last) observer.ended(last);
      if (last?.status !== "complete" && (stored || signal.aborted)) void settle();
    }
  };

  return {
    id,
    title,
    messages,
    receipts,
    answering,
    loaded,
    problem,
    draft,
    setDraft,
    setTitle,
    ask,
    load,
    /** Ends the answer; core keeps what it has of it. */
    stop: () => stream?.abort(),
    /** Asks the last question again. */
    retry: () => {
      const all = messages();
      const at = all.findLastIndex(({ role }) => role === "user");
      const [part] = all[at]?.parts ?? [];
      if (answering() || part?.type !== "text") return;
      // The retry shows the question again.
      if (all.at(-1)?.undelivered) setMessages(all.slice(0, at));
      void ask(part.text);
    },
  };
};

const problemOf = (data: Extract<ChatEvent, { event: "error" }>["data"]): ApiProblem => {
  const { code, title, status, request_id: requestId, detail } = data;
  return new ApiProblem({
    code,
    status,
    requestId,
    message: typeof detail === "string" ? detail : title,
  });
};
