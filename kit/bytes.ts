/**
 * Reads all bytes of a stream. Returns null as soon as there are more than `bytesMax`. Uses at most twice the memory of the bytes that have
 * arrived, for chunks of any size.
 */
export const readBytes = async (
  stream: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  bytesMax: number,
): Promise<Uint8Array<ArrayBuffer> | null> => {
  let bytes = new Uint8Array();
  let size = 0;
  for await (const chunk of stream) {
    const needed = size + chunk.length;
    if (needed > bytesMax) return null;
    if (needed > bytes.length) {
      const larger = new Uint8Array(Math.max(needed, Math.min(2 * bytes.length, bytesMax)));
      larger.set(bytes.subarray(0, size));
      bytes = larger;
    }
    bytes.set(chunk, size);
    size = needed;
  }
  return bytes.subarray(0, size);
};

/** Returns the bytes of all parts together. */
export const lengthOf = (parts: readonly Uint8Array[]): number =>
  parts.reduce((sum, { length }) => sum + length, 0);

/** Concatenates parts. */
export const concatBytes = (parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => {
  const bytes = new Uint8Array(lengthOf(parts));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
};

/** Returns the SHA-256 by WebCrypto, which Node and workerd share. */
export const sha256 = async (
  data: Uint8Array<ArrayBuffer> | string,
): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(
    await crypto.subtle.digest(
      "SHA-256",
      typeof data === "string" ? new TextEncoder().encode(data) : data,
    ),
  );

/** Reports whether two byte strings are equal. Not constant in time: for public values only. */
export const equalBytes = (a: Uint8Array, b: Uint8Array): boolean => {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
};
