/**
 * Counts dead letters up to a limit. At the limit it counts the stored ones again at each call, so an export continues once somebody has
 * deleted or retried some; those that are not stored yet do not count then.
 */
export const createDeadLetterLimit = ({
  max,
  stored,
  count,
}: {
  max: number;
  /** How many are stored now. */
  stored: number;
  /** Counts the stored ones; a failure leaves the limit as it is. */
  count(): Promise<number>;
}): (() => Promise<boolean>) => {
  let counted = stored;
  return async () => {
    if (counted >= max) counted = await count().catch(() => counted);
    if (counted >= max) return false;
    counted += 1;
    return true;
  };
};
