import type { Clock } from "#kit/clock.ts";
import type { Reply } from "./route-definition.ts";
import { textStream } from "./text-stream.ts";

/** An event of a stream; `data` is sent as one line of JSON. */
export interface StreamedEvent {
  event: string;
  data: unknown;
}

const idleMs = 20_000;
/** Without events, a comment keeps proxies from closing the connection. */
const commentMs = 10_000;

/** Returns the response with these events as `text/event-stream` (WHATWG HTML, 9.2). Ends the iterator when the reader disconnects. */
export const eventStream = (
  events: AsyncIterator<StreamedEvent, void, void>,
  { clock }: { clock: Pick<Clock, "sleep"> },
): Reply => ({
  status: 200,
  stream: {
    type: "text/event-stream",
    content: textStream(withComments(events, clock), { clock, idleMs }),
  },
  // Proxies such as nginx would buffer the response.
  headers: { "X-Accel-Buffering": "no" },
});

const withComments = (
  events: AsyncIterator<StreamedEvent, void, void>,
  clock: Pick<Clock, "sleep">,
): AsyncIterator<string, void, void> => {
  let pending: ReturnType<typeof events.next> | undefined;
  return {
    next: async () => {
      pending ??= events.next();
      const arrived = new AbortController();
      const comment = clock.sleep(commentMs, arrived.signal).then(
        () => null,
        () => null,
      );
      const result = await Promise.race([pending, comment]);
      arrived.abort();
      if (result === null) return { done: false, value: ": waiting\n\n" };
      pending = undefined;
      if (result.done) return { done: true, value: undefined };
      const { event, data } = result.value;
      return { done: false, value: `event: ${event}\ndata: ${JSON.stringify(data)}\n\n` };
    },
    return: async () => {
      await events.return?.();
      return { done: true, value: undefined };
    },
  };
};
