/**
 * One Forward stream. Invariants: acks leave in the order of their frames; a frame's bytes are in the budget from the moment it is
 * read until it is committed or refused; after the first refusal nothing more is read.
 */
import type { ForwardRequest, Frame, Open } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";

/** What answers a stream's messages. */
export interface ForwardSteps<Opened, Ack> {
  /** Checks an Open and gives the cursor's answer. */
  open(message: Open): Promise<Opened>;
  /** Takes a frame at once (or throws) and resolves with its ack once it is committed. */
  accept(frame: Frame): Promise<Ack>;
  /** Resolves when reading may go on. */
  untilReadable(signal: AbortSignal): Promise<void>;
}

/** Frames of one stream that may wait for their ack; the sender's own limit is far below. */
const framesInFlightMax = 256;

/**
 * Runs a stream to its end: yields Opened, then an ack a frame. Throws a Problem, or the reason of `cut` as soon as it aborts. `gone`
 * only ends the reading: Connect aborts it also when a message is refused, and what was read before is still acknowledged.
 */
export async function* forward<Opened, Ack>(
  requests: AsyncIterable<ForwardRequest>,
  steps: ForwardSteps<Opened, Ack>,
  { cut, gone }: { cut: AbortSignal; gone: AbortSignal },
): AsyncGenerator<{ case: "opened"; value: Opened } | { case: "ack"; value: Ack }> {
  const iterator = requests[Symbol.asyncIterator]();
  const first = await abortable(iterator.next(), cut);
  if (first.done) return;
  if (first.value.message.case !== "open") throw outOfOrder("open must be the first message");
  yield { case: "opened", value: await abortable(steps.open(first.value.message.value), cut) };

  const acks: Promise<Ack>[] = [];
  let changed = Promise.withResolvers<void>();
  let ended = false;
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const push = (ack: Promise<Ack>) => {
    // Awaited in its turn; until then its rejection is not unhandled.
    ack.catch(() => undefined);
    acks.push(ack);
    change();
  };
  const read = async () => {
    const signal = AbortSignal.any([cut, gone]);
    while (!signal.aborted) {
      await steps.untilReadable(signal);
      while (acks.length >= framesInFlightMax) await abortable(changed.promise, signal);
      const next = await iterator.next();
      if (next.done || signal.aborted) return;
      const { message } = next.value;
      if (message.case !== "frame") throw outOfOrder("only frames may follow open");
      push(steps.accept(message.value));
    }
  };
  read()
    .catch((cause) => push(Promise.reject(cause)))
    .finally(() => {
      ended = true;
      change();
    });

  for (;;) {
    const ack = acks[0];
    if (ack !== undefined) {
      const value = await abortable(ack, cut);
      acks.shift();
      change();
      yield { case: "ack", value };
    } else if (ended) return;
    else await abortable(changed.promise, cut);
  }
}

const outOfOrder = (detail: string): Problem => new Problem("frame_invalid", { detail });

/** The promise's result, or the signal's reason as soon as it aborts. */
const abortable = <T>(promise: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((resolve, reject) => {
    if (signal.aborted) {
      promise.catch(() => undefined);
      return reject(signal.reason);
    }
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
