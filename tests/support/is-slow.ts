/** Whether `bun run test -- --slow` runs the long forms of loops too; without it they take a part of their faults. */
export const isSlow = process.env.SVC_TEST_SLOW === "true";

/** Returns how often a property is tried: as often as said in the long form, a quarter of that otherwise. */
export const runsOf = (long: number): number => (isSlow ? long : Math.ceil(long / 4));
