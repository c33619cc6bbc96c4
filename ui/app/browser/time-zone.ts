import { type Accessor, createSignal } from "solid-js";
import type { TimeZone } from "../format/format.ts";
import { readStoredText, storeText } from "./stored-text.ts";

const storageKey = "time-zone";

/** The zone of absolute times: stored in this browser, UTC by default. */
export interface TimeZoneChoice {
  zone: Accessor<TimeZone>;
  choose(zone: TimeZone): void;
}

/** Returns the choice of a zone. Create one for a page. */
export const createTimeZoneChoice = (): TimeZoneChoice => {
  const [zone, setZone] = createSignal<TimeZone>(
    readStoredText(storageKey) === "local" ? "local" : "utc",
  );
  return {
    zone,
    choose(next) {
      setZone(next);
      storeText(storageKey, next);
    },
  };
};
