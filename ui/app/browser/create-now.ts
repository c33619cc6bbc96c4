import { type Accessor, createSignal, onCleanup } from "solid-js";

/** Returns this machine's time in milliseconds, updated once a second while the page is in view. Create one for a page. */
export const createNow = (): Accessor<number> => {
  const now = createMoment();
  return () => now().at;
};

/** Returns the same time by both clocks: `Date.now()`, and `performance.now()`, which nobody can set back. */
export const createMoment = (): Accessor<{ at: number; tick: number }> => {
  const read = () => ({ at: Date.now(), tick: performance.now() });
  const [now, setNow] = createSignal(read());
  const tick = () => {
    if (document.visibilityState === "visible") setNow(read());
  };
  const timer = setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
  onCleanup(() => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", tick);
  });
  return now;
};
