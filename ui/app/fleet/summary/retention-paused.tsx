import { Show } from "solid-js";
import type { FleetHealthReport } from "../../../../proto/fleet-health/report.ts";
import { Icon } from "../../design/icon.tsx";

/** Warns that the database's clock jumped and that no stored day is dropped meanwhile; nothing otherwise. Times are in UTC. */
export const RetentionPaused = (props: { pause: FleetHealthReport["retention_paused"] }) => (
  <Show when={props.pause}>
    {(pause) => (
      <div class="banner retention-paused" role="status">
        <Icon name="warning" />
        <p>
          <b>The database's clock jumped</b> from {minute(pause().jumped_from)} to{" "}
          {minute(pause().jumped_to)}. Stored days are kept until {minute(pause().until)}. Correct
          the clock; if it is right, run <code>svc-server confirm-clock</code>.
        </p>
      </div>
    )}
  </Show>
);

const minute = (time: string): string => `${time.slice(0, 16).replace("T", " ")} UTC`;
