/*
 * Answers questions. Invariants of a turn:
 * - One core writes it: `beginTurn` takes its lease, `keepLease` renews it, and every write checks it.
 * - `close` runs once, however the turn ended. If it fails or core is killed, the lease expires and `closeExpiredTurn` closes the turn.
 * - All writes of the turn run in `exclusive`, so that a late renewal cannot write after the close.
 * - The slots of the person and of core are released when the turn has ended, even while its reader still reads.
 */

import type { Core, WriteCore } from "#functions/core.ts";
import type { InferenceMessage } from "#functions/inference/inference.ts";
import { Problem } from "#functions/problems.ts";
import {
  insertChatMessages,
  type LeasedChatSession,
  leaseTurn,
  listNewestChatMessages,
  lockChatSession,
  renewTurn,
  sizeOfChatMessages,
  updateChatMessage,
  updateChatSession,
} from "#functions/store/chat/sessions.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { findPerson } from "#functions/store/operator/operators.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { createSlots } from "#kit/slots.ts";
import type { Receipt } from "#proto/chat/receipt.ts";
import type { ChatEvent } from "#proto/chat/session.ts";
import { messageBytesMax, titleLengthMax } from "#proto/chat/session.ts";
import { cutText } from "#proto/values.ts";
import type { Origin } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import type { Chat } from "./chat.ts";
import { closeTurn, type TurnOutcome } from "./close-turn.ts";
import { historyOf } from "./model-messages.ts";
import { appendReceipts, type ChainNeeds, requireReceiptKey } from "./receipts.ts";
import { type Draft, inOpenTurn, runTurn, type TurnNeeds, turnLost } from "./run-turn.ts";

const turnsOfPersonMax = 2;
const turnsOfCoreMax = 64;
const turnMs = 60_000;
/** The response starts after this time even without an event of the model, so that a proxy sees progress. */
const openMs = 3_000;

/** A question to a conversation. */
interface Question {
  sessionId: string;
  content: string;
}

/** An event of a turn; `failed` becomes the event `error`. */
export type TurnEvent =
  | Exclude<ChatEvent, { event: "error" }>
  | { event: "failed"; error: unknown };

/** The events of an answer. `return` stops the model and the running query, and resolves once the turn is closed. */
export interface Answer extends AsyncIterator<TurnEvent, void, void> {
  return(): Promise<IteratorResult<TurnEvent, void>>;
}

type Needs = Pick<Core, "db" | "clock" | "entropy" | "log" | "observe">;

/** The reason of an abort by the person, which is no fault. */
class Stopped extends Error {
  override readonly name = "Stopped";
}

/** The most turns of a conversation. */
const turnsMax = 100;
/** No turn begins when a conversation's messages have this many bytes, because all of it is read at once. */
const conversationBytesMax = 16 * 1024 * 1024;
/** The most messages of the history, which seldom has room for as many. */
const historyMessages = 40;
/** The start of a question that becomes the title, in characters. */
const titleCharacters = Math.min(80, titleLengthMax);

/** A turn that has begun: its question is stored, and this core has its lease. */
export interface BegunTurn {
  sessionId: string;
  /** The id of the answer. */
  id: string;
  /** The conversation so far, with the question. */
  messages: InferenceMessage[];
  receipt: Receipt;
}

/**
 * Stores the question, its receipt and an empty answer, and takes the lease of the conversation. Closes a turn whose core was killed.
 * Throws 404 `not_found`, 409 `conflict` while another answer is being written, and after 100 turns or 16 MiB.
 */
const beginTurn = (
  { db, clock, entropy }: WriteCore,
  { signer, inference }: Chat,
  operator: Operator,
  { sessionId, content }: { sessionId: string; content: string },
): Promise<BegunTurn> =>
  db.transaction(async (tx) => {
    const needs = { signer, clock };
    const session = await lockChatSession(tx, sessionId);
    if (session === undefined || session.userId !== operator.userId) throw new Problem("not_found");
    await requireReceiptKey(tx, needs);
    await requireFree(tx, needs, session);
    const earlier = await listNewestChatMessages(tx, sessionId, historyMessages);
    const now = new Date(clock.now());
    const questionId = uuidv7({ clock, entropy });
    const answerId = uuidv7({ clock, entropy });
    const shared = { sessionId, createdAt: now };
    await insertChatMessages(
      tx,
      {
        ...shared,
        id: questionId,
        position: session.messageCount + 1,
        role: "user",
        status: "complete",
        parts: [{ type: "text", text: content }],
      },
      {
        ...shared,
        id: answerId,
        position: session.messageCount + 2,
        role: "assistant",
        status: "answering",
        parts: [],
        provider: inference.provider,
        model: inference.model,
      },
    );
    const [receipt] = await appendReceipts(tx, needs, session, [
      { kind: "user_message", payload: { message_id: questionId, content } },
    ]);
    if (receipt === undefined) throw new Error("no receipt was appended");
    await updateChatSession(tx, sessionId, {
      updatedAt: now,
      messageCount: session.messageCount + 2,
      title:
        session.title ?? (cutText(content.trim().replaceAll(/\s+/g, " "), titleCharacters) || null),
    });
    await leaseTurn(tx, sessionId, answerId);
    return {
      sessionId,
      id: answerId,
      messages: [...historyOf(earlier), { role: "user", text: content }],
      receipt,
    };
  });

/** Closes a turn whose lease has expired. Throws 409 `conflict` while an answer is being written, and when the conversation is full. */
const requireFree = async (tx: Executor, needs: ChainNeeds, session: LeasedChatSession) => {
  if (session.turnId !== null) {
    if (!session.turnExpired)
      throw new Problem("conflict", { detail: "An answer is being written in this conversation" });
    await closeTurn(tx, needs, session, { status: "aborted" });
  }
  if (session.messageCount >= 2 * turnsMax)
    throw new Problem("conflict", {
      detail: `The conversation has ${turnsMax} questions: begin another one`,
    });
  if ((await sizeOfChatMessages(tx, session.id)) > conversationBytesMax)
    throw new Problem("conflict", { detail: "The conversation is full: begin another one" });
};

/**
 * Creates the function that answers questions. It resolves with the events at the first event of the model or after 3 s, and rejects with
 * an earlier failure. Throws 413 `payload_too_large`, 429 `too_many_conversations`, and what `beginTurn` throws. `signal` aborts when the
 * client disconnects before that.
 */
export const createAnswers = (core: Needs, chat: Chat) => {
  const ofPerson = createSlots(turnsOfPersonMax);
  const ofCore = createSlots(turnsOfCoreMax);
  /** Acquires a slot of the person and one of core. Returns the function that releases both. */
  const acquireSlots = (userId: string): (() => void) => {
    const releasePerson = ofPerson(userId);
    const releaseCore = releasePerson && ofCore("");
    if (releaseCore === null) {
      releasePerson?.();
      throw new Problem("too_many_conversations", { retryAfterSeconds: 5 });
    }
    return () => {
      releasePerson?.();
      releaseCore();
    };
  };
  return async (
    operator: Operator,
    question: Question,
    { origin, signal }: { origin: Origin; signal: AbortSignal },
  ): Promise<Answer> => {
    if (new TextEncoder().encode(question.content).length > messageBytesMax)
      throw new Problem("payload_too_large", {
        detail: `A message is at most ${messageBytesMax} bytes`,
      });
    if (chat.stopping.aborted) throw new Problem("shutting_down");
    const release = acquireSlots(operator.userId);
    try {
      const startedAt = core.clock.monotonic();
      const turn = await beginTurn(core, chat, operator, question);
      return await startTurn({ core, chat, operator, origin, signal, turn, startedAt, release });
    } catch (error) {
      release();
      throw error;
    }
  };
};

/** A turn to run, and what it needs. */
interface TurnStart {
  core: Needs;
  chat: Chat;
  operator: Operator;
  origin: Origin;
  signal: AbortSignal;
  turn: BegunTurn;
  startedAt: number;
  release(): void;
}

/** Runs a turn. Resolves once its response is open: at the first event of the model, or after 3 s. */
const startTurn = async (start: TurnStart): Promise<Answer> => {
  const { core, chat, turn, startedAt, release } = start;
  const { clock, log, observe } = core;
  const abort = new AbortController();
  const channel = createEventChannel(abort.signal);
  const ended = new AbortController();
  const opened = Promise.withResolvers<void>();
  let isOpen = false;
  const open = () => {
    isOpen = true;
    opened.resolve();
  };
  const stop = () => {
    abort.abort(new Stopped("the client disconnected"));
    channel.drop();
    open();
  };
  limitTurn(start, { open, stop, abort: (reason) => abort.abort(reason), ended: ended.signal });

  const draft: Draft = { parts: [], stored: 0, characters: 0, resultBytes: 0 };
  const exclusive = createQueue();
  let hasOutput = false;
  const needs: TurnNeeds = {
    ...start,
    exclusive,
    signal: abort.signal,
    emit: async (event) => {
      if (!hasOutput) {
        hasOutput = true;
        observe.chatFirstEvent((clock.monotonic() - startedAt) / 1000);
        open();
      }
      await channel.write(event);
      abort.signal.throwIfAborted();
    },
  };
  const close = async (status: TurnOutcome): Promise<Receipt[]> =>
    inOpenTurn(needs, turn, (tx, session) =>
      closeTurn(tx, { signer: chat.signer, clock }, session, { status, parts: draft.parts }),
    );
  const run = async () => {
    await channel.write({ event: "receipt", data: turn.receipt });
    const end = await runTurn(needs, turn, draft).then(
      () => ({ status: "complete" as const, error: null }),
      (cause: unknown) => endOf(abort.signal.aborted ? abort.signal.reason : cause),
    );
    let { error } = end;
    ended.abort();
    try {
      for (const data of await close(end.status)) await channel.write({ event: "receipt", data });
    } catch (cause) {
      error ??= cause;
    }
    const outcome = error === null ? end.status : codeOf(error);
    observe.chatTurn(outcome);
    const seconds = (clock.monotonic() - startedAt) / 1000;
    log.info(
      { session_id: turn.sessionId, message_id: turn.id, outcome, seconds },
      "chat turn ended",
    );
    if (error === null)
      await channel.write({ event: "done", data: { message_id: turn.id, status: end.status } });
    else if (isOpen) await channel.write({ event: "failed", error });
    else opened.reject(error);
    channel.end();
    open();
  };
  keepLease({
    core,
    turn,
    userId: start.operator.userId,
    draft,
    exclusive,
    ended: ended.signal,
    lost: (reason) => abort.abort(reason),
  });
  const finished = run().finally(release);
  // Its caller cannot act on a failure.
  finished.catch(() => undefined);
  await opened.promise;
  return answerOf(channel, () => {
    stop();
    return finished;
  });
};

/** Opens the response, stops the turn or aborts it in time, until it has ended. */
const limitTurn = (
  { core: { clock }, chat, signal }: TurnStart,
  {
    open,
    stop,
    abort,
    ended,
  }: { open(): void; stop(): void; abort(reason: Problem): void; ended: AbortSignal },
) => {
  const after = (ms: number, run: () => void) =>
    void clock.sleep(ms, ended).then(run, () => undefined);
  const whenAborted = (source: AbortSignal, run: () => void) => {
    if (source.aborted) run();
    else source.addEventListener("abort", run, { once: true, signal: ended });
  };
  after(openMs, open);
  after(turnMs, () => abort(tookTooLong()));
  whenAborted(signal, stop);
  whenAborted(chat.stopping, () => abort(new Problem("shutting_down")));
};

/** Passes events from a writer to one reader, in order. */
interface EventChannel {
  /** Resolves when there is room again, or the signal has aborted. Never rejects. */
  write(event: TurnEvent): Promise<void>;
  /** Ends the channel after the events that were written. */
  end(): void;
  /** Returns the next event; null at the end. */
  read(): Promise<TurnEvent | null>;
  /** Drops all events, present and future: the reader has disconnected. */
  drop(): void;
}

const answerOf = (channel: EventChannel, stopped: () => Promise<void>): Answer => ({
  next: async () => {
    const event = await channel.read();
    return event === null ? { done: true, value: undefined } : { done: false, value: event };
  },
  return: async () => {
    await stopped();
    return { done: true, value: undefined };
  },
});

const tookTooLong = () =>
  new Problem("inference_failed", { detail: "The answer took longer than 60 s" });

const codeOf = (error: unknown): string => (error instanceof Problem ? error.code : "internal");

/** Returns the outcome of a turn that was stopped or failed. */
const endOf = (cause: unknown): { status: TurnOutcome; error: unknown } => {
  if (cause instanceof Stopped) return { status: "aborted", error: null };
  const isShutdown = cause instanceof Problem && cause.code === "shutting_down";
  return { status: isShutdown ? "aborted" : "failed", error: cause };
};

/** Returns a function that runs tasks one after the other, even if one fails. */
const createQueue = (): TurnNeeds["exclusive"] => {
  let last: Promise<unknown> = Promise.resolve();
  return (task) => {
    const result = last.then(task);
    last = result.catch(() => undefined);
    return result;
  };
};

/** Events that may wait for a slow reader; then the model waits too. */
const waitingMax = 64;

/** Creates a channel. Its writer does not wait after `signal` aborts. */
const createEventChannel = (signal: AbortSignal): EventChannel => {
  const waiting: TurnEvent[] = [];
  let isEnded = false;
  let isDropped = false;
  let changed = Promise.withResolvers<void>();
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  signal.addEventListener("abort", change, { once: true });
  return {
    write: async (event) => {
      if (isDropped) return;
      waiting.push(event);
      change();
      while (waiting.length > waitingMax && !isDropped && !signal.aborted) await changed.promise;
    },
    end: () => {
      isEnded = true;
      change();
    },
    read: async () => {
      for (;;) {
        const event = waiting.shift();
        if (event !== undefined) {
          change();
          return event;
        }
        if (isEnded || isDropped) return null;
        await changed.promise;
      }
    },
    drop: () => {
      isDropped = true;
      waiting.length = 0;
      change();
    },
  };
};

const renewMs = 2_000;

/**
 * Renews the lease of a turn and stores the text so far, every two seconds until `ended` aborts. Ends the turn when another core has closed
 * it, and when its person was suspended or lost the scope.
 */
const keepLease = ({
  core: { db, clock, log },
  turn,
  userId,
  draft,
  exclusive,
  ended,
  lost,
}: {
  core: Pick<Core, "db" | "clock" | "log">;
  turn: BegunTurn;
  userId: string;
  draft: Draft;
  exclusive: TurnNeeds["exclusive"];
  ended: AbortSignal;
  lost(reason: Problem): void;
}) => {
  let storedTail = "";
  const renew = async () => {
    if (ended.aborted) return;
    if (!(await renewTurn(db, { sessionId: turn.sessionId, turnId: turn.id }))) {
      lost(turnLost());
      return;
    }
    const person = await findPerson(db, userId);
    if (person?.status !== "active" || !person.scopes.includes("audit"))
      lost(new Problem("forbidden", { detail: "You may no longer use chat" }));
    const last = draft.parts.length > draft.stored ? draft.parts.at(-1) : undefined;
    const tail = last?.type === "text" ? last.text : "";
    if (tail !== storedTail) await updateChatMessage(db, turn.id, { tail });
    storedTail = tail;
  };
  const keep = async () => {
    for (;;) {
      await clock.sleep(renewMs, ended);
      await exclusive(renew).catch((err: unknown) =>
        log.warn({ err }, "the lease of a chat turn was not renewed"),
      );
    }
  };
  keep().catch(() => undefined);
};
