import type { Entropy } from "#kit/entropy.ts";

/** SplitMix32: returns unsigned 32-bit integers, the same for the same seed. */
export const createRandom = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
};

/** Returns the same bytes for the same seed, so that a failing test fails again. Not for keys. */
export const createSeededEntropy = (seed = 1): Entropy => {
  const next = createRandom(seed);
  return { bytes: (length) => Uint8Array.from({ length }, () => next() >>> 24) };
};
