import type { Clock } from "../../kit/clock.ts";

/**
 * The texts of an iterator as a stream of UTF-8, at the reader's pace: the next one is asked for when there is room for it. A reader
 * that goes away, or does not take a text for `idleMs`, ends the iterator, whose `finally` runs then; the latter, like a failure of the
 * iterator, breaks the stream off.
 */
export const textStream = (
  texts: AsyncIterator<string, void, void>,
  { clock, idleMs }: { clock: Pick<Clock, "sleep">; idleMs: number },
): ReadableStream<Uint8Array> => {
  const encoder = new TextEncoder();
  let taken = new AbortController();
  return new ReadableStream({
    async pull(controller) {
      // What was given before has been taken.
      taken.abort();
      const { done, value } = await texts.next();
      if (done) {
        controller.close();
        return;
      }
      controller.enqueue(encoder.encode(value));
      taken = new AbortController();
      const breakOff = async () => {
        controller.error(new Error(`the reader took nothing for ${idleMs / 1000} s`));
        await texts.return?.();
      };
      clock
        .sleep(idleMs, taken.signal)
        .then(breakOff)
        .catch(() => undefined);
    },
    async cancel() {
      taken.abort();
      await texts.return?.();
    },
  });
};
