import { type Accessor, createSignal, onCleanup } from "solid-js";

/** Returns this machine's time in milliseconds, updated once a second while the page is in view. Create one for a page. */
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
