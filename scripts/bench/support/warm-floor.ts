import { rounded } from "./bench.ts";

/** A floor that was measured several times; `rate` is its highest once warm, since neighbours only slow it. */
export interface WarmFloor<Measured> {
  rate: number;
  /** Of the highest. */
  measured: Measured;
  /** Whether two in a row agreed; otherwise the bench cannot judge. */
  agreed: boolean;
  /** By how much the warm ones differ, divided by the highest. */
  spread: number;
  rates: readonly number[];
}

const agreeWithin = 0.05;
const runsMax = 10;

/**
 * Measures a floor until two in a row agree within 5 %, ten times at most. Returns a function that measures it once more, and returns what
 * to compare with.
 */
export const warmFloor = async <Measured extends { rate: number }>(
  measure: () => Promise<Measured>,
) => {
  const runs = [await measure()];
  const differ = () => {
    const [before, last] = runs.slice(-2).map(({ rate }) => rate);
    return (
      before === undefined ||
      last === undefined ||
      Math.abs(last - before) > agreeWithin * Math.max(last, before)
    );
  };
  do runs.push(await measure());
  while (differ() && runs.length < runsMax);
  const agreed = !differ();
  return async (): Promise<WarmFloor<Measured>> => {
    runs.push(await measure());
    const warm = runs.slice(-3).toSorted((a, b) => b.rate - a.rate) as [Measured, ...Measured[]];
    const lowest = warm.at(-1) ?? warm[0];
    return {
      rate: warm[0].rate,
      measured: warm[0],
      agreed,
      spread: rounded(1 - lowest.rate / warm[0].rate, 3),
      rates: runs.map(({ rate }) => rounded(rate)),
    };
  };
};
