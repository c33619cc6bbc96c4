/** Returns the higher of two. */
export const highest = (one: bigint, other: bigint): bigint => (one > other ? one : other);

/** Returns the lower of two. */
export const lowest = (one: bigint, other: bigint): bigint => (one < other ? one : other);
