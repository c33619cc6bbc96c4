/**
 * Frees the memory of bytes that nothing uses any more. They are empty afterwards, and copying them throws. Does nothing if they are free
 * already, or are a part of a larger buffer, unless `whole` allows to free all of it. V8 counts this memory against the limit of its heap:
 * without this it ran a full collection every few frames.
 */
export const freeBytes = (bytes: Uint8Array, { whole = false } = {}): void => {
  const { buffer } = bytes;
  if (
    buffer instanceof ArrayBuffer &&
    !buffer.detached &&
    (whole || buffer.byteLength === bytes.byteLength)
  )
    buffer.transfer(0);
};
