import { type Accessor, createSignal } from "solid-js";

/** Keeps a scrolling element at its end while the reader is there. */
export interface StickyScroll {
  /** Receives the element; its only child is the content that grows. */
  ref(element: HTMLElement): void;
  /** Whether the end is in view. */
  atEnd: Accessor<boolean>;
  /** Scrolls to the end and stays there. */
  stick(): void;
}

/** Nearer than this to the end counts as the end. */
const endPixels = 24;

/** Creates the behaviour; it ends with its element. */
export const createStickyScroll = (): StickyScroll => {
  const [atEnd, setAtEnd] = createSignal(true);
  let scrolled: HTMLElement | undefined;
  const toEnd = () => scrolled?.scrollTo({ top: scrolled.scrollHeight, behavior: "instant" });
  const observer = new ResizeObserver(() => atEnd() && toEnd());
  return {
    ref(element) {
      observer.disconnect();
      scrolled = element;
      setAtEnd(true);
      queueMicrotask(() => {
        observer.observe(element);
        if (element.firstElementChild) observer.observe(element.firstElementChild);
      });
      let before = 0;
      element.addEventListener("scroll", () => {
        const { scrollTop, scrollHeight, clientHeight } = element;
        if (scrollHeight - scrollTop - clientHeight < endPixels) setAtEnd(true);
        // Only the reader scrolls back. The event of a scroll to the end may arrive after the content has grown again.
        else if (scrollTop < before) setAtEnd(false);
        before = scrollTop;
      });
    },
    atEnd,
    stick() {
      setAtEnd(true);
      toEnd();
    },
  };
};
