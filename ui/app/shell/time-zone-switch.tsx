import { zoneName } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

/** A button that switches absolute times between UTC and the time of this machine. The choice applies at once and is stored. */
export const TimeZoneSwitch = () => {
  const { times, coreNow } = usePageContext();
  const other = () => (times.zone() === "utc" ? "local" : "utc");
  return (
    <button
      class="button time-zone-switch"
      type="button"
      title={other() === "local" ? `Show local time (${zoneName(coreNow(), "local")})` : "Show UTC"}
      onClick={() => times.choose(other())}
    >
      <span class="visually-hidden">Times in </span>
      {times.zone() === "utc" ? "UTC" : "Local"}
    </button>
  );
};
