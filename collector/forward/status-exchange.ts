import type { ControlRequests } from "./control-requests.ts";
import { encodeStatus, type Status, type StatusAnswer } from "./messages.ts";

/** The statuses of one stream, of which one at most is unanswered. */
export interface StatusExchange {
  /** Sends a status; resolves with core's answer, and rejects with the reason of `end`. */
  send(status: Status): Promise<StatusAnswer>;
  answered(answer: StatusAnswer): void;
  end(reason: unknown): void;
}

/** Creates the statuses of a stream. */
export const createStatusExchange = (controls: Pick<ControlRequests, "push">): StatusExchange => {
  let seq = 0;
  let ended: { reason: unknown } | undefined;
  let waiting: (PromiseWithResolvers<StatusAnswer> & { seq: number }) | undefined;

  return {
    async send(status) {
      if (ended) throw ended.reason;
      if (waiting) throw new Error("the last status is not answered yet");
      seq += 1;
      waiting = { ...Promise.withResolvers<StatusAnswer>(), seq };
      controls.push(encodeStatus(seq, status));
      return waiting.promise;
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
