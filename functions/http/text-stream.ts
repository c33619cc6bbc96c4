import type { Clock } from "#kit/clock.ts";

/**
 * Streams strings as UTF-8 with backpressure. Errors after `idleMs` without a read, or when the iterator throws. Ends the iterator, so
 * that its `finally` runs, when the reader disconnects or stops reading.
 */
export const textStream = (
  texts: AsyncIterator<string, void, void>,
  { clock, idleMs }: { clock: Pick<Clock, "sleep">; idleMs: number },
): ReadableStream<Uint8Array> => {
  const encoder = new TextEncoder();
  let read = new AbortController();
  return new ReadableStream({
    async pull(controller) {
      // The reader has read the previous string.
      read.abort();
      // An iterator yields an empty string to be stoppable at that point; it is not sent.
      let next = await texts.next();
      while (!next.done && next.value === "") next = await texts.next();
      const { done, value } = next;
      if (done) {
        controller.close();
        return;
      }
      controller.enqueue(encoder.encode(value));
      read = new AbortController();
      const abort = async () => {
        controller.error(new Error(`no read for ${idleMs / 1000} s`));
        await texts.return?.();
      };
      clock
        .sleep(idleMs, read.signal)
        .then(abort)
        .catch(() => undefined);
    },
    async cancel() {
      read.abort();
      await texts.return?.();
    },
  });
};
