import { type Accessor, createMemo, createSignal } from "solid-js";

/** Several links or buttons as one stop of the Tab key; the arrow keys move among them (WAI-ARIA, toolbar pattern). */
export type Roving = ReturnType<typeof createRoving>;

/**
 * Creates roving over the links with these indices; Tab returns to the last one, while it exists, and goes to `start` first. With `perRow`,
 * they are in rows, and an arrow moves to the row above or below.
 */
export const createRoving = (
  indices: Accessor<readonly number[]>,
  {
    perRow = 1,
    start = () => indices()[0],
  }: { perRow?: number; start?: () => number | undefined } = {},
) => {
  const [last, setLast] = createSignal(-1);
  const stop = createMemo(() => (indices().includes(last()) ? last() : (start() ?? -1)));
  return {
    /** Returns 0 for the link that Tab reaches, -1 for the others. */
    tabIndexOf: (index: number): 0 | -1 => (index === stop() ? 0 : -1),
    /** Records that a link received the focus. */
    enter: (index: number): unknown => setLast(index),
    /** Handles keys of the element that contains these links alone, in the order of `indices`. */
    onKeyDown(event: KeyboardEvent & { currentTarget: Element }): void {
      const { key, ctrlKey, altKey, metaKey, currentTarget } = event;
      const next =
        ctrlKey || altKey || metaKey
          ? undefined
          : nextStop(key, indices().indexOf(stop()), indices().length, perRow);
      if (next === undefined) return;
      event.preventDefault();
      currentTarget.querySelectorAll<HTMLElement>("a, button")[next]?.focus();
    },
  };
};

/** Returns the position that a key moves to, from position `at` of `count`; undefined for other keys. The ends do not wrap. */
export const nextStop = (
  key: string,
  at: number,
  count: number,
  perRow = 1,
): number | undefined => {
  switch (key) {
    case "ArrowRight":
      return Math.min(at + 1, count - 1);
    case "ArrowLeft":
      return Math.max(at - 1, 0);
    case "ArrowDown":
      return at + perRow < count ? at + perRow : at;
    case "ArrowUp":
      return at >= perRow ? at - perRow : at;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
};
