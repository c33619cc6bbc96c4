import type { ChatEvent } from "../../../proto/chat/events.ts";

/** An event of a turn; `failed` becomes the event `error`. */
export type TurnEvent =
  | Exclude<ChatEvent, { event: "error" }>
  | { event: "failed"; error: unknown };

/** Events from a writer to one reader, in order. */
export interface EventChannel {
  /** Resolves when there is room again, or the signal has aborted. Never rejects. */
  write(event: TurnEvent): Promise<void>;
  /** Ends the channel after the events that were written. */
  end(): void;
  /** Returns the next event; null at the end. */
  read(): Promise<TurnEvent | null>;
  /** Drops all events, present and future: the reader has disconnected. */
  drop(): void;
}

/** Events that wait for a slow reader before the model does. */
const waitingMax = 64;

/** Creates a channel; after `signal` aborts, its writer waits no more. */
export const createEventChannel = (signal: AbortSignal): EventChannel => {
  const waiting: TurnEvent[] = [];
  let isEnded = false;
  let isDropped = false;
  let changed = Promise.withResolvers<void>();
  const change = (): void => {
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
