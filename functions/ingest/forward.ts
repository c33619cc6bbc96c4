/**
 * One Forward stream. Invariants: answers leave in the order of their messages; a frame's bytes are in the budget from the moment it
 * is read until it is committed or refused; after the first refusal nothing more is read.
 */
import type { ForwardRequest, Frame, Open } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import type { ExaminedFrame } from "./examine-frame.ts";

/** What came: a message of the stream, or a frame that was examined as it was read. */
export type ForwardMessage = ForwardRequest["message"] | { case: "examined"; value: ExaminedFrame };

/** What answers a stream's messages. */
export interface ForwardSteps<Answer> {
  /** Checks an Open and gives its answer. */
  open(message: Open): Promise<Answer>;
  /** Takes a frame at once, or rejects; resolves with its answer once it is committed. */
  accept(frame: Frame): Promise<Answer>;
  /** The same of a frame that was examined. */
  acceptExamined(frame: ExaminedFrame): Promise<Answer>;
  /** Undefined when reading may go on at once, else a promise that resolves when it may, or rejects once a signal aborts. */
  untilReadable(...signals: AbortSignal[]): Promise<void> | undefined;
}

/** Frames of one stream that may wait for their ack before no more are read; the sender's own limit is far below. */
const framesInFlightMax = 256;

type Entry<Answer> =
  | { state: "pending" }
  | { state: "answered"; answer: Answer }
  | { state: "refused"; cause: unknown };

/**
 * Runs a stream to its end. Messages come in groups, as they arrive; answers leave in groups, as they become ready. Throws a Problem,
 * or the reason of `cut` as soon as it aborts. `gone` only ends the reading: Connect aborts it also when a message is refused, and
 * what was read before is still acknowledged.
 */
export async function* forward<Answer>(
  requests: AsyncIterable<readonly ForwardMessage[]>,
  steps: ForwardSteps<Answer>,
  { cut, gone }: { cut: AbortSignal; gone: AbortSignal },
): AsyncGenerator<Answer[]> {
  const entries: Entry<Answer>[] = [];
  const change = createSignal();
  let opened = false;
  let ended = false;

  const push = (answer: Promise<Answer>): Promise<unknown> => {
    const at = entries.push({ state: "pending" }) - 1;
    const entry = entries[at] as Entry<Answer>;
    return answer.then(
      (value) => {
        Object.assign(entry, { state: "answered", answer: value });
        if (entries[0] === entry) change.raise();
      },
      (cause: unknown) => {
        Object.assign(entry, { state: "refused", cause });
        if (entries[0] === entry) change.raise();
      },
    );
  };
  /** Gives what must end before the next message is taken: Opened tells where the queue stood before the frames of its stream. */
  const take = (message: ForwardMessage): Promise<unknown> | undefined => {
    if (!opened && message.case !== "open") throw outOfOrder("open must be the first message");
    if (opened && message.case !== "frame" && message.case !== "examined")
      throw outOfOrder("only frames may follow open");
    opened = true;
    if (message.case === "open") return push(steps.open(message.value));
    if (message.case === "frame") void push(steps.accept(message.value));
    if (message.case === "examined") void push(steps.acceptExamined(message.value));
    return undefined;
  };
  const read = async (): Promise<void> => {
    const over = () => cut.aborted || gone.aborted;
    const room = () => entries.length < framesInFlightMax || over();
    const iterator = requests[Symbol.asyncIterator]();
    while (!over()) {
      const held = steps.untilReadable(cut, gone);
      if (held) await held;
      while (!room()) await drained.wait();
      const next = await iterator.next();
      if (next.done) return;
      for (const request of next.value) {
        const opening = take(request);
        if (opening) await opening;
      }
    }
  };
  const drained = createSignal();
  const stop = () => {
    change.raise();
    drained.raise();
  };
  cut.addEventListener("abort", stop, { once: true });
  gone.addEventListener("abort", drained.raise, { once: true });
  read()
    .catch((cause: unknown) => push(Promise.reject(cause)))
    .finally(() => {
      ended = true;
      change.raise();
    });

  try {
    for (;;) {
      if (cut.aborted) throw cut.reason;
      const answers: Answer[] = [];
      let refusal: { cause: unknown } | undefined;
      for (let entry = entries[0]; entry !== undefined && entry.state !== "pending"; entry = entries[0]) {
        if (entry.state === "refused") {
          refusal = entry;
          break;
        }
        answers.push(entry.answer);
        entries.shift();
      }
      if (answers.length > 0) {
        drained.raise();
        yield answers;
      }
      if (refusal) throw refusal.cause;
      if (answers.length > 0) continue;
      if (ended && entries.length === 0) return;
      await change.wait();
    }
  } finally {
    cut.removeEventListener("abort", stop);
  }
}

const outOfOrder = (detail: string): Problem => new Problem("frame_invalid", { detail });

/** Wakes one waiter, now or when it comes. */
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
