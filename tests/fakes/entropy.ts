import type { Entropy } from "#kit/entropy.ts";

/** Returns the same bytes for the same seed (SplitMix32), so that a failing test fails again. Not for keys. */
export const createSeededEntropy = (seed = 1): Entropy => {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return mixed >>> 24;
  };
  return { bytes: (length) => Uint8Array.from({ length }, next) };
};
