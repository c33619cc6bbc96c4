import { type Accessor, createSignal, onCleanup } from "solid-js";

/** A point in time by both clocks of this machine, in milliseconds: one stops while it sleeps, the other can be set back. */
export interface Moment {
  /** `Date.now()`. */
  readonly at: number;
  /** `performance.now()`. */
  readonly tick: number;
}

/** Returns the milliseconds since a moment, by the clock that counted more; never negative. */
export const ageMs = (since: Moment, now: Moment): number =>
  Math.max(0, now.at - since.at, now.tick - since.tick);

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
