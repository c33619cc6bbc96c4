/**
 * Reuses buffers. V8 counts the memory of buffers and collects garbage after many allocations, and the kernel clears each page of a new
 * buffer: for megabytes that only pass through, that costs more than the work on them.
 */
export interface BufferPool {
  /** Returns a buffer of at least `bytes`, with the content of its previous use. */
  acquire(bytes: number): Uint8Array<ArrayBuffer>;
  /** Returns a buffer, or a part of one, to the pool; do not read or write it afterwards. Ignores buffers of other origin. */
  release(buffer: Uint8Array<ArrayBuffer>): void;
}

/** Smaller buffers cost little, and are not pooled. */
const pooledBytesMin = 8 * 1024;

/** Creates a pool that keeps at most `idleBytesMax` of unused buffers. */
export const createBufferPool = (idleBytesMax: number): BufferPool => {
  const idle = new Map<number, Uint8Array<ArrayBuffer>[]>();
  const acquired = new WeakSet<ArrayBuffer>();
  let idleBytes = 0;
  return {
    acquire(bytes) {
      if (bytes <= pooledBytesMin) return Buffer.allocUnsafe(bytes);
      const size = sizeFor(bytes);
      const known = idle.get(size)?.pop();
      if (known !== undefined) idleBytes -= size;
      const buffer = known ?? Buffer.allocUnsafeSlow(size);
      acquired.add(buffer.buffer);
      return buffer;
    },
    release({ buffer }) {
      if (!acquired.delete(buffer)) return;
      const size = buffer.byteLength;
      if (idleBytes + size > idleBytesMax) return;
      idleBytes += size;
      const others = idle.get(size);
      if (others) others.push(Buffer.from(buffer));
      else idle.set(size, [Buffer.from(buffer)]);
    },
  };
};

/** Allocates each buffer anew, for those that are never released. */
export const unpooled: BufferPool = {
  acquire: (bytes) => Buffer.allocUnsafe(bytes),
  release: () => undefined,
};

/** Sizes are four to a power of two, so that a buffer is at most a quarter larger than requested. */
const sizeFor = (bytes: number) => {
  const step = 2 ** (29 - Math.clz32(bytes - 1));
  return Math.ceil(bytes / step) * step;
};
