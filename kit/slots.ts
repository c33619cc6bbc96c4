/** Acquires a slot for `key`. Returns its release function, which is idempotent, or null at the limit. */
type Slots = (key: string) => (() => void) | null;

/** Creates a counter of `max` slots for each key. A key without acquired slots takes no memory. */
export const createSlots = (max: number): Slots => {
  const acquired = new Map<string, number>();
  return (key) => {
    const count = acquired.get(key) ?? 0;
    if (count >= max) return null;
    acquired.set(key, count + 1);
    let isAcquired = true;
    return () => {
      if (!isAcquired) return;
      isAcquired = false;
      const left = (acquired.get(key) ?? 1) - 1;
      if (left === 0) acquired.delete(key);
      else acquired.set(key, left);
    };
  };
};
