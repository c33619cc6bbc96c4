/**
 * The texts of an iterator as a stream of UTF-8, at the reader's pace: the next one is asked for when there is room for it. A reader
 * that goes away ends the iterator, whose `finally` runs then; a failure of the iterator breaks the stream off.
 */
export const textStream = (texts: AsyncIterator<string, void, void>): ReadableStream<Uint8Array> => {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      await texts.return?.();
    },
  });
};
