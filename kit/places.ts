/** Takes a place of `key`: what gives it back, once; null when it holds all of its places. */
export type Places = (key: string) => (() => void) | null;

/** `max` places for each key; keys without any taken cost nothing. */
export const createPlaces = (max: number): Places => {
  const taken = new Map<string, number>();
  return (key) => {
    const before = taken.get(key) ?? 0;
    if (before >= max) return null;
    taken.set(key, before + 1);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      const left = (taken.get(key) ?? 1) - 1;
      if (left === 0) taken.delete(key);
      else taken.set(key, left);
    };
  };
};
