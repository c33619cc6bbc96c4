/** Something that is due. */
export interface Due<Item> {
  at: number;
  item: Item;
}

/** What is due, the earliest first; of equal times that which was put in first. A binary heap: 100,000 hosts stand in line. */
export interface Schedule<Item> {
  add(at: number, item: Item): void;
  /** The time of the earliest; infinity when there is nothing. */
  nextAt(): number;
  take(): Due<Item> | undefined;
}

/** An empty agenda. */
export const createSchedule = <Item>(): Schedule<Item> => {
  const heap: (Due<Item> & { order: number })[] = [];
  let added = 0;
  const isBefore = (one: number, other: number): boolean => {
    const [a, b] = [heap[one], heap[other]];
    if (a === undefined || b === undefined) return a !== undefined;
    return a.at === b.at ? a.order < b.order : a.at < b.at;
  };
  const swap = (one: number, other: number): void => {
    const [a, b] = [heap[one], heap[other]];
    if (a === undefined || b === undefined) return;
    heap[one] = b;
    heap[other] = a;
  };
  return {
    add(at, item) {
      let place = heap.push({ at, item, order: added++ }) - 1;
      for (let above = (place - 1) >> 1; place > 0 && isBefore(place, above); above = (place - 1) >> 1) {
        swap(place, above);
        place = above;
      }
    },
    nextAt: () => heap[0]?.at ?? Number.POSITIVE_INFINITY,
    take() {
      swap(0, heap.length - 1);
      const first = heap.pop();
      for (let place = 0; ; ) {
        const [left, right] = [2 * place + 1, 2 * place + 2];
        const below = isBefore(right, left) ? right : left;
        if (!isBefore(below, place)) return first;
        swap(place, below);
        place = below;
      }
    },
  };
};
