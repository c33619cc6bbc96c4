import { onCleanup } from "solid-js";
import { timeFrame, whenIdle } from "../../browser/when-idle.ts";

/** How long no row has been added before those off the screen are drawn, and how many at a time. */
const quietMs = 3000;
const rowsAtOnce = 8;

/**
 * Draws the rows of a table that are off the screen once it has been quiet, a few at a time, until the caller is disposed. Until then the
 * browser skips them (`content-visibility`), so that the page responds before rows that nobody sees are drawn. Afterwards it does not:
 * Chromium hides skipped rows from assistive technology.
 */
export const drawAhead = (body: HTMLTableSectionElement): void => {
  let cancel: () => void = () => {};
  const draw = () => {
    const skipped = [...body.querySelectorAll<HTMLElement>("tr:not([data-drawn])")].slice(
      0,
      rowsAtOnce,
    );
    if (skipped.length === 0) return;
    const finish = timeFrame();
    for (const row of skipped) row.dataset.drawn = "";
    cancel = finish(() => {
      cancel = whenIdle(draw);
    });
  };
  const wait = () => {
    cancel();
    const timer = setTimeout(() => {
      cancel = whenIdle(draw);
    }, quietMs);
    cancel = () => clearTimeout(timer);
  };
  const observer = new MutationObserver(wait);
  observer.observe(body, { childList: true });
  wait();
  onCleanup(() => {
    observer.disconnect();
    cancel();
  });
};
