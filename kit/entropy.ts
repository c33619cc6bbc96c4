import type { Clock } from "./clock.ts";

/** Randomness as a dependency: tests pass a seeded one. */
export interface Entropy {
  /** `length` bytes fit for keys and tokens. */
  bytes(length: number): Uint8Array<ArrayBuffer>;
}

/** The platform's cryptographic generator. */
export const systemEntropy: Entropy = {
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
};

/** Draws many bytes at a time from `entropy`: for ids, where each draw would cost more than the id. Not for secrets. */
export const pooledEntropy = (entropy: Entropy, poolBytes = 1024): Entropy => {
  let pool = new Uint8Array();
  return {
    bytes: (length) => {
      if (pool.length < length) pool = entropy.bytes(Math.max(poolBytes, length));
      const taken = pool.slice(0, length);
      pool = pool.subarray(length);
      return taken;
    },
  };
};

/** Returns a uniform number in [0, 1), for jitter. */
export const fraction = (entropy: Entropy): number => {
  const view = new DataView(entropy.bytes(4).buffer);
  return view.getUint32(0) / 0x1_0000_0000;
};

/** Creates a UUIDv7 (RFC 9562), which sorts by its millisecond, then at random. */
export const uuidv7 = ({
  clock,
  entropy,
}: {
  clock: Pick<Clock, "now">;
  entropy: Entropy;
}): string => {
  const bytes = entropy.bytes(16);
  return formatUuidv7(bytes, clock.now());
};

/** For each source of randomness, the millisecond of its last ordered id, and the id's number within the millisecond. */
const lastOrdered = new WeakMap<Entropy, { now: number; count: number }>();

/**
 * Creates a UUIDv7 that sorts after the earlier ordered ones of the same entropy: 12 of its bits count within the millisecond (RFC
 * 9562 section 6.2, method 1), and a full millisecond borrows the next one. After the clock was set back by a second or more, order restarts.
 */
export const orderedUuidv7 = ({
  clock,
  entropy,
}: {
  clock: Pick<Clock, "now">;
  entropy: Entropy;
}): string => {
  const now = clock.now();
  const last = lastOrdered.get(entropy);
  const isBehind = last !== undefined && now <= last.now && last.now - now < 1000;
  const count = isBehind ? last.count + 1 : 0;
  const next = isBehind ? { now: last.now + (count >> 12), count: count & 0xfff } : { now, count };
  lastOrdered.set(entropy, next);
  const bytes = entropy.bytes(16);
  new DataView(bytes.buffer).setUint16(6, next.count);
  return formatUuidv7(bytes, next.now);
};

/** Writes time, version and variant over the random bytes. */
const formatUuidv7 = (bytes: Uint8Array<ArrayBuffer>, now: number) => {
  const view = new DataView(bytes.buffer);
  view.setUint32(0, Math.floor(now / 0x1_0000));
  view.setUint16(4, now % 0x1_0000);
  view.setUint8(6, (view.getUint8(6) & 0x0f) | 0x70);
  view.setUint8(8, (view.getUint8(8) & 0x3f) | 0x80);
  const text = bytes.toHex();
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-${text.slice(16, 20)}-${text.slice(20)}`;
};
