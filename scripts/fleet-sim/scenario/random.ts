import { createHash } from "node:crypto";
import type { Entropy } from "#kit/entropy.ts";

/** Draws that depend on the name of their stream alone. Never fit for keys. */
export interface Random extends Entropy {
  /** A uniform number in [0, 1) with 32 random bits. */
  fraction(): number;
  /** An integer from `min` to `max`, both included. */
  between(min: number, max: number): number;
  /** One of `items`, each as likely. */
  pick<Item>(items: readonly [Item, ...Item[]]): Item;
  /** One of `items` by integer weights. */
  weighted<Item>(items: readonly (readonly [item: Item, weight: number])[]): Item;
  /** `items` in a random order (Fisher and Yates). */
  shuffled<Item>(items: readonly Item[]): Item[];
}

/**
 * Creates the stream of a name: xoshiro128** 1.1 (Blackman and Vigna, 2018), seeded by the SHA-256 of the name's JSON. Streams of
 * different names are independent, so more hosts or a longer history do not change the hosts that were there before.
 */
export const createRandom = (...name: readonly (string | number)[]): Random => {
  const digest = createHash("sha256").update(JSON.stringify(name)).digest();
  return new Xoshiro128(
    digest.readInt32LE(0),
    digest.readInt32LE(4),
    digest.readInt32LE(8),
    digest.readInt32LE(12),
  );
};

const rotated = (word: number, bits: number): number => (word << bits) | (word >>> (32 - bits));

/** A class, because a fleet of 100,000 hosts holds several hundred thousand streams. */
class Xoshiro128 implements Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(a: number, b: number, c: number, d: number) {
    this.#a = a;
    this.#b = b;
    this.#c = c;
    this.#d = d;
  }

  #word(): number {
    const result = Math.imul(rotated(Math.imul(this.#b, 5), 7), 9) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = rotated(this.#d, 11);
    return result;
  }

  fraction(): number {
    return this.#word() / 0x1_0000_0000;
  }

  between(min: number, max: number): number {
    return min + Math.floor(this.fraction() * (max - min + 1));
  }

  pick<Item>([first, ...others]: readonly [Item, ...Item[]]): Item {
    return others[this.between(0, others.length) - 1] ?? first;
  }

  weighted<Item>(items: readonly (readonly [item: Item, weight: number])[]): Item {
    const total = items.reduce((sum, [, weight]) => sum + weight, 0);
    let left = this.between(1, total);
    for (const [item, weight] of items) {
      left -= weight;
      if (left <= 0) return item;
    }
    throw new Error("weights must be positive");
  }

  shuffled<Item>(items: readonly Item[]): Item[] {
    const order = [...items];
    for (let last = order.length - 1; last > 0; last--) {
      const at = this.between(0, last);
      const item = order[last] as Item;
      order[last] = order[at] as Item;
      order[at] = item;
    }
    return order;
  }

  bytes(length: number): Uint8Array<ArrayBuffer> {
    return Uint8Array.from({ length }, () => this.#word() >>> 24);
  }
}
