/**
 * Buffers that are used again. V8 counts the memory of buffers and collects all garbage when much of it came lately, and the system
 * clears each page of a new one: for those that pass through by the megabyte, that costs more than what is done with them.
 */
export interface BufferPool {
  /** A buffer of at least so many bytes, whose content is left over from whoever had it before. */
  take(bytes: number): Uint8Array<ArrayBuffer>;
  /** Gives one back, or a part of it, which nobody may read or write from then on. What the pool did not lend is ignored. */
  give(buffer: Uint8Array<ArrayBuffer>): void;
}

/** Up to here a buffer costs little. */
const smallestBytes = 8 * 1024;

/** Makes a pool that keeps at most `idleBytesMax` of buffers that nobody uses. */
export const createBufferPool = (idleBytesMax: number): BufferPool => {
  const idle = new Map<number, Uint8Array<ArrayBuffer>[]>();
  const lent = new WeakSet<ArrayBuffer>();
  let idleBytes = 0;
  return {
    take(bytes) {
      if (bytes <= smallestBytes) return Buffer.allocUnsafe(bytes);
      const size = sizeFor(bytes);
      const known = idle.get(size)?.pop();
      if (known !== undefined) idleBytes -= size;
      const buffer = known ?? Buffer.allocUnsafeSlow(size);
      lent.add(buffer.buffer);
      return buffer;
    },
    give({ buffer }) {
      if (!lent.delete(buffer)) return;
      const size = buffer.byteLength;
      if (idleBytes + size > idleBytesMax) return;
      idleBytes += size;
      const others = idle.get(size);
      if (others) others.push(Buffer.from(buffer));
      else idle.set(size, [Buffer.from(buffer)]);
    },
  };
};

/** For what is not given back: every buffer is a new one. */
export const unpooled: BufferPool = { take: (bytes) => Buffer.allocUnsafe(bytes), give: () => undefined };

/** Sizes are four to a power of two, so that a buffer is at most a quarter larger than was asked for. */
const sizeFor = (bytes: number): number => {
  const step = 2 ** (29 - Math.clz32(bytes - 1));
  return Math.ceil(bytes / step) * step;
};
