import type { GrpcRequest } from "./grpc-stream.ts";
import { encodeStatus, type Status, type StatusAnswer } from "./messages.ts";

/** The statuses of one stream, of which one at most is unanswered. */
export interface StatusLane {
  /** Sends a status; resolves with core's answer, and rejects with the reason of `end`. */
  send(status: Status): Promise<StatusAnswer>;
  /** Returns the requests of the stream: `others`, and between them the statuses. */
  merge(others: AsyncGenerator<GrpcRequest>): AsyncGenerator<GrpcRequest>;
  answered(answer: StatusAnswer): void;
  end(reason: unknown): void;
}

/** Creates the statuses of a stream. */
export const createStatusLane = (): StatusLane => {
  let seq = 0;
  let ended: { reason: unknown } | undefined;
  let unsent: GrpcRequest | undefined;
  let waiting: (PromiseWithResolvers<StatusAnswer> & { seq: number }) | undefined;
  let wake = () => {};

  return {
    async send(status) {
      if (ended) throw ended.reason;
      if (waiting) throw new Error("the last status is not answered yet");
      seq += 1;
      waiting = { ...Promise.withResolvers<StatusAnswer>(), seq };
      unsent = encodeStatus(seq, status);
      wake();
      return waiting.promise;
    },
    async *merge(others) {
      let next: IteratorResult<GrpcRequest> | undefined;
      let failure: { error: unknown } | undefined;
      const pull = () => {
        next = undefined;
        others.next().then(
          (result) => {
            next = result;
            wake();
          },
          (error: unknown) => {
            failure = { error };
            wake();
          },
        );
      };
      pull();
      for (;;) {
        if (failure) throw failure.error;
        if (unsent) {
          const status = unsent;
          unsent = undefined;
          yield status;
        } else if (next) {
          if (next.done) return;
          yield next.value;
          // Only now: the one that was sent is freed with the request for the next one.
          pull();
        } else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    answered(answer) {
      if (answer.seq !== waiting?.seq) return;
      waiting.resolve(answer);
      waiting = undefined;
    },
    end(reason) {
      ended ??= { reason };
      waiting?.reject(reason);
      waiting = undefined;
    },
  };
};
