import { type Accessor, createSignal, onCleanup } from "solid-js";

/** This machine's time in milliseconds, which moves once a second while the page is in view. One for a page: all that ticks reads it. */
export const createNow = (): Accessor<number> => {
  const [now, setNow] = createSignal(Date.now());
  const tick = () => {
    if (document.visibilityState === "visible") setNow(Date.now());
  };
  const timer = setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
  onCleanup(() => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", tick);
  });
  return now;
};
