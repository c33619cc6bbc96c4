import { type Accessor, createMemo, createSignal } from "solid-js";

/** Several links as one stop of the Tab key, among which the arrow keys move (WAI-ARIA, toolbar pattern). */
export interface Roving {
  /** 0 for the one link that Tab reaches, -1 for the others. */
  tabIndexOf(index: number): 0 | -1;
  /** A link has got the focus. */
  enter(index: number): void;
  /** Of the element that holds the links, and them alone, in the order of `indices`. */
  onKeyDown(event: KeyboardEvent & { currentTarget: Element }): void;
}

/** Roving over the links with these indices; the one left last is returned to, as long as it is there. */
export const createRoving = (indices: Accessor<readonly number[]>): Roving => {
  const [last, setLast] = createSignal(-1);
  const stop = createMemo(() => (indices().includes(last()) ? last() : (indices()[0] ?? -1)));
  return {
    tabIndexOf: (index) => (index === stop() ? 0 : -1),
    enter: setLast,
    onKeyDown(event) {
      const { key, ctrlKey, altKey, metaKey, currentTarget } = event;
      const next =
        ctrlKey || altKey || metaKey ? undefined : nextStop(key, indices().indexOf(stop()), indices().length);
      if (next === undefined) return;
      event.preventDefault();
      currentTarget.querySelectorAll("a")[next]?.focus();
    },
  };
};

/** Where a key leads from place `at` of `count`; undefined when it is no key of movement. The ends do not wrap around. */
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
