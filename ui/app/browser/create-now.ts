import { type Accessor, createSignal, onCleanup } from "solid-js";
import type { Moment } from "../api/report-state.ts";

/** Returns the present by both clocks of this machine. */
export const readMoment = (): Moment => ({ at: Date.now(), tick: performance.now() });

/** Returns the present, updated once a second while the page is in view. Create one for a page. */
export const createMoment = (): Accessor<Moment> => {
  const [now, setNow] = createSignal(readMoment());
  const tick = () => {
    if (document.visibilityState === "visible") setNow(readMoment());
  };
  const timer = setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
  onCleanup(() => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", tick);
  });
  return now;
};
