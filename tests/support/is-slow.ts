/** Whether `bun run test -- --slow` runs the long forms of loops too; without it they take a part of their faults. */
export const isSlow = process.env.SVC_TEST_SLOW === "true";
