/**
 * Frees the memory of bytes that nothing uses any more. They are empty afterwards, and copying them throws. V8 counts such memory
 * against the limit of its heap, and collected all garbage for every few frames that it was left to find by itself. Does nothing if
 * they are free already, or a part of a larger buffer, unless `whole` says that the rest is not used either.
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
