import { Index, Show } from "solid-js";
import { HostVolume, type VolumeKind } from "#proto/fleet-health/volume.ts";
import { createReport } from "#ui/app/api/live-report.tsx";
import { Sparkline } from "#ui/app/design/sparkline.tsx";
import { formatCount } from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";
import { type KindTotal, kindNames, kindTotals, volumeBars, volumeText } from "./volume-view.ts";
import "./volume.css";

const volumeIntervalMs = 60_000;

/** What core stored for a host in the last two days: a bar for each hour, the sum of each kind, and tables by hour, today's first. */
export const Volume = (props: { identityId: string }) => {
  const { times } = usePageContext();
  const report = createReport({
    schema: HostVolume,
    path: () => `/api/core/collector/health/${props.identityId}/volume`,
    intervalMs: volumeIntervalMs,
  });
  const volume = () => report.current();
  const hoursSent = () => volume()?.hours.filter(({ kinds }) => kinds.length > 0) ?? [];
  /** The hours with envelopes, of the day of the report in the chosen zone, or before it. */
  const hoursOf = ({ generated_at: at }: HostVolume, part: "today" | "before") => {
    const dayOf = (time: string) => times.text(time).slice(0, 10);
    return hoursSent().filter(({ from }) => (dayOf(from) === dayOf(at)) === (part === "today"));
  };
  return (
    <Show
      when={volume()}
      fallback={
        <p class="quiet">
          {report.state().problem ? "The volume could not be loaded." : "Loading"}
        </p>
      }
    >
      {(known) => (
        <Show
          when={hoursSent().length > 0}
          fallback={<p class="quiet">Nothing in the last 48 hours.</p>}
        >
          <Sparkline bars={volumeBars(known(), times.zone())} />
          <dl class="facts">
            <Index each={kindTotals(known())}>
              {(total) => (
                <>
                  <dt>{kindNames[total().kind]}</dt>
                  <dd>{volumeText(total())}</dd>
                </>
              )}
            </Index>
          </dl>
          <Show
            when={hoursOf(known(), "today").length > 0}
            fallback={<p class="quiet">Nothing yet today.</p>}
          >
            <HourTable caption="Today" hours={hoursOf(known(), "today")} />
          </Show>
          <Show when={hoursOf(known(), "before").length > 0}>
            <details>
              <summary>Before today</summary>
              <HourTable caption="Before today" hours={hoursOf(known(), "before")} dated />
            </details>
          </Show>
        </Show>
      )}
    </Show>
  );
};

/** Envelopes by hour and kind, the newest hour first, with their sums. */
const HourTable = (props: { caption: string; hours: HostVolume["hours"]; dated?: boolean }) => {
  const { times } = usePageContext();
  const totals = () => kindTotals(props);
  const nameOf = (hour: HostVolume["hours"][number]) => {
    const at = times.text(hour.from);
    return props.dated ? at.slice(0, 16) : at.slice(11, 16);
  };
  const ofKind = (hours: HostVolume["hours"], kind: VolumeKind) =>
    kindTotals({ hours }).find((each) => each.kind === kind);
  return (
    // A region that scrolls must be reachable by keyboard (WCAG 2.1.1).
    <section class="volume-hours" aria-label={`${props.caption}, by hour and kind`} tabindex="0">
      <table>
        <caption>{props.caption}, in envelopes</caption>
        <thead>
          <tr>
            <th scope="col">{times.zone() === "utc" ? "From (UTC)" : "From"}</th>
            <Index each={totals()}>
              {(total) => <th scope="col">{kindNames[total().kind]}</th>}
            </Index>
          </tr>
        </thead>
        <tbody>
          <Index each={props.hours.toReversed()}>
            {(hour) => (
              <tr>
                <th scope="row">{nameOf(hour())}</th>
                <Index each={totals()}>
                  {(total) => <HourCell total={ofKind([hour()], total().kind)} />}
                </Index>
              </tr>
            )}
          </Index>
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">In all</th>
            <Index each={totals()}>{(total) => <HourCell total={total()} />}</Index>
          </tr>
        </tfoot>
      </table>
    </section>
  );
};

const HourCell = (props: { total: KindTotal | undefined }) => (
  <Show when={props.total} fallback={<td class="quiet">0</td>}>
    {(total) => <td title={volumeText(total())}>{formatCount(total().envelopes)}</td>}
  </Show>
);
