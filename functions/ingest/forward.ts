/**
 * One Forward stream. Invariants: answers leave in the order of their messages, except those of statuses; a frame's bytes are in the budget
 * from when it is decoded until it is committed or rejected; after the first rejected message nothing more is read. Behind an Open that is
 * rejected no frame is accepted: it would have no session, and so would be stored in that of another fork.
 */
import type { Account, ForwardResponse, Open, Status } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { rawBytesOf } from "../store/ingest/envelope-run.ts";
import type { ExaminedFrame } from "./examine-frame.ts";

/** A decoded message of the stream. */
export type ForwardMessage =
  | { case: "open"; value: Open }
  | { case: "frame"; value: ExaminedFrame }
  | { case: "status"; value: Status }
  | { case: "account"; value: Account };

/** Decodes a message when its turn comes, so that those before it are served; throws a Problem. */
export type DecodeMessage = () => ForwardMessage;

/** The answer to one message. */
export type ForwardAnswer = Extract<ForwardResponse["message"], { value: unknown }>;

/** Answers a stream's messages. */
interface ForwardSteps<Answer> {
  /** Reports whether a message that has arrived may be served; if not, `abort` has aborted. */
  mayAccept(): boolean;
  /** Checks an Open and returns its answer. */
  open(message: Open): Promise<Answer>;
  /** Reserves a frame's bytes at once, or rejects; resolves with its answer once it is committed. */
  accept(frame: ExaminedFrame): Promise<Answer>;
  /** Starts to decide on a status, or rejects it; the answer is pushed. */
  status(status: Status): void;
  /** Resolves with the answer to an account once the frames before it are committed. */
  account(account: Account): Promise<Answer>;
  /** Returns undefined when reading may continue, else a promise that resolves when it may, or rejects once a signal aborts. */
  untilReadable(...signals: AbortSignal[]): Promise<void> | undefined;
  /** Resolves once the other streams have had a turn. */
  nextTurn(): Promise<void>;
}

/** Bytes of envelopes that a stream may unpack before the others have a turn: a few kilobytes on the wire may be 360 MB. */
const turnBytesMax = 8 * 1024 * 1024;

/** Frames of one stream that may wait for their ack before no more are read; the sender's own limit is far below. */
const framesInFlightMax = 256;
/** Rejections of one stream that may wait for their ack before no more are read: an ack can be larger than its frame. */
const rejectionsInFlightMax = 10_000;

/** Messages to the client that wait for no ack. */
interface PushedAnswers<Answer> {
  /** Sends a message, in place of an unsent one of the same `kind`. */
  push(answer: Answer, kind: string): void;
  /** Removes and returns those that are unsent. */
  take(): Answer[];
  /** Called after each push. */
  onPush: () => void;
}

/** Creates an empty one. `send` sends a message at once and returns true, or returns false if it cannot: then it waits to be taken. */
export const createPushedAnswers = <Answer>(
  send: (answer: Answer) => boolean = () => false,
): PushedAnswers<Answer> => {
  const unsent = new Map<string, Answer>();
  const pushed: PushedAnswers<Answer> = {
    push(answer, kind) {
      if (unsent.size === 0 && send(answer)) return;
      unsent.set(kind, answer);
      pushed.onPush();
    },
    take() {
      const answers = [...unsent.values()];
      unsent.clear();
      return answers;
    },
    onPush: () => undefined,
  };
  return pushed;
};

type Entry<Answer> = { rejections: number } & (
  | { state: "pending" }
  | { state: "answered"; answer: Answer }
  | { state: "rejected"; cause: unknown }
);

/** The answers of one stream, in the order of their messages. */
const createAnswers = <Answer>() => {
  const entries: Entry<Answer>[] = [];
  let rejections = 0;
  /** The first answer is ready. */
  const changed = createSignal();
  /** There may be room again. */
  const drained = createSignal();
  return {
    changed,
    drained,
    /** Resolves once a message is answered, with false if it is rejected. */
    push: (answer: Promise<Answer>, rejected = 0): Promise<boolean> => {
      rejections += rejected;
      const at = entries.push({ state: "pending", rejections: rejected }) - 1;
      const entry = entries[at] as Entry<Answer>;
      return answer.then(
        (value) => {
          Object.assign(entry, { state: "answered", answer: value });
          if (entries[0] === entry) changed.raise();
          return true;
        },
        (cause: unknown) => {
          Object.assign(entry, { state: "rejected", cause });
          if (entries[0] === entry) changed.raise();
          return false;
        },
      );
    },
    /** Moves the answers that are ready to `ready`; returns the rejection that follows them. */
    take: (ready: Answer[]): { cause: unknown } | undefined => {
      for (let entry = entries[0]; entry && entry.state !== "pending"; entry = entries[0]) {
        if (entry.state === "rejected") return entry;
        ready.push(entry.answer);
        entries.shift();
        rejections -= entry.rejections;
      }
      return undefined;
    },
    hasRoom: () => entries.length < framesInFlightMax && rejections < rejectionsInFlightMax,
    isEmpty: () => entries.length === 0,
  };
};

/**
 * Runs a stream to its end. Messages come in groups, as they arrive; answers leave in groups, as they become ready. Throws a Problem, or
 * the reason of `abort` as soon as it aborts; for `stream_moved` once all that was read is answered. `disconnected` only ends the reading:
 * Connect aborts it also when a message is rejected, and what was read before is still acknowledged.
 */
export async function* forward<Answer>(
  requests: AsyncIterable<readonly DecodeMessage[]>,
  steps: ForwardSteps<Answer>,
  {
    abort,
    disconnected,
    pushed,
  }: { abort: AbortSignal; disconnected: AbortSignal; pushed: PushedAnswers<Answer> },
): AsyncGenerator<Answer[]> {
  const answers = createAnswers<Answer>();
  const { push, changed, drained } = answers;
  let opened = false;
  let ended = false;

  /** Returns what must end before the next message: Opened reports the cursor before the frames of its stream. */
  const serve = (message: ForwardMessage): Promise<boolean> | undefined => {
    if (!opened && message.case !== "open") throw outOfOrder("open must be the first message");
    if (opened && message.case === "open") throw outOfOrder("open may come only once");
    opened = true;
    if (message.case === "open") return push(steps.open(message.value));
    if (message.case === "status") {
      steps.status(message.value);
      return undefined;
    }
    if (message.case === "account") void push(steps.account(message.value));
    else void push(steps.accept(message.value), message.value.rejected.length);
    return undefined;
  };
  const isOver = () => abort.aborted || disconnected.aborted;
  const pause = () => steps.untilReadable(abort, disconnected);
  let bytesOfTurn = 0;
  /** Returns false once nothing more is read. */
  const serveGroup = async (group: readonly DecodeMessage[]) => {
    for (const decode of group) {
      // Each may be a block of which a few bytes fill the budget.
      for (let paused = pause(); paused; paused = pause()) await paused;
      if (isOver() || !steps.mayAccept()) return false;
      const message = decode();
      const opening = serve(message);
      if (opening && !(await opening)) return false;
      if (message.case !== "frame") continue;
      bytesOfTurn += rawBytesOf(message.value.frame.run);
      if (bytesOfTurn < turnBytesMax) continue;
      bytesOfTurn = 0;
      await steps.nextTurn();
    }
    return true;
  };
  const read = async () => {
    const iterator = requests[Symbol.asyncIterator]();
    while (!isOver()) {
      for (let paused = pause(); paused; paused = pause()) await paused;
      while (!isOver() && !answers.hasRoom()) await drained.wait();
      const next = await iterator.next();
      if (next.done || !(await serveGroup(next.value))) return;
    }
  };
  const stop = () => {
    changed.raise();
    drained.raise();
  };
  pushed.onPush = changed.raise;
  abort.addEventListener("abort", stop, { once: true });
  disconnected.addEventListener("abort", drained.raise, { once: true });
  read()
    .catch((cause: unknown) => push(Promise.reject(cause)))
    .finally(() => {
      ended = true;
      changed.raise();
    });

  try {
    for (;;) {
      if (abort.aborted && (answers.isEmpty() || !isMoved(abort.reason))) throw abort.reason;
      const ready: Answer[] = [];
      const rejection = answers.take(ready);
      ready.push(...pushed.take());
      if (ready.length > 0) {
        drained.raise();
        yield ready;
      }
      if (rejection) throw rejection.cause;
      if (ready.length > 0) continue;
      if (ended && answers.isEmpty()) return;
      await changed.wait();
    }
  } finally {
    abort.removeEventListener("abort", stop);
  }
}

/** Reports whether what has arrived is still answered, so that its sender does not send it again. */
const isMoved = (reason: unknown) => reason instanceof Problem && reason.code === "stream_moved";

const outOfOrder = (detail: string): Problem => new Problem("frame_invalid", { detail });

/** Wakes one waiter: the current one, or the next to wait. */
const createSignal = () => {
  let raised = false;
  let wake: (() => void) | undefined;
  return {
    raise: () => {
      raised = true;
      wake?.();
    },
    wait: async () => {
      if (!raised) await new Promise<void>((resolve) => (wake = resolve));
      raised = false;
      wake = undefined;
    },
  };
};
