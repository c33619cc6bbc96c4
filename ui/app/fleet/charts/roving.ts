import { type Accessor, createMemo, createSignal } from "solid-js";

/** Several links as one stop of the Tab key; the arrow keys move among them (WAI-ARIA, toolbar pattern). */
export interface Roving {
  /** Returns 0 for the link that Tab reaches, -1 for the others. */
  tabIndexOf(index: number): 0 | -1;
  /** Records that a link received the focus. */
  enter(index: number): void;
  /** Handles keys of the element that contains these links alone, in the order of `indices`. */
  onKeyDown(event: KeyboardEvent & { currentTarget: Element }): void;
}

/** Creates roving over the links with these indices; Tab returns to the last one, while it exists. */
export const createRoving = (indices: Accessor<readonly number[]>): Roving => {
  const [last, setLast] = createSignal(-1);
  const stop = createMemo(() => (indices().includes(last()) ? last() : (indices()[0] ?? -1)));
  return {
    tabIndexOf: (index) => (index === stop() ? 0 : -1),
    enter: setLast,
    onKeyDown(event) {
      const { key, ctrlKey, altKey, metaKey, currentTarget } = event;
      const next =
        ctrlKey || altKey || metaKey
          ? undefined
          : nextStop(key, indices().indexOf(stop()), indices().length);
      if (next === undefined) return;
      event.preventDefault();
      currentTarget.querySelectorAll("a")[next]?.focus();
    },
  };
};

/** Returns the position that a key moves to, from position `at` of `count`; undefined for other keys. The ends do not wrap. */
export const nextStop = (key: string, at: number, count: number): number | undefined => {
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return Math.min(at + 1, count - 1);
    case "ArrowLeft":
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
};
