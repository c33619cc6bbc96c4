import { createMemo, Index, Show } from "solid-js";
import { HostVolume } from "../../../../proto/fleet-health/volume.ts";
import { createReport } from "../../api/create-report.ts";
import { Sparkline } from "../../design/sparkline.tsx";
import { formatTimestamp } from "../../format/format.ts";
import { usePageContext } from "../../session/page-context.tsx";
import { kindNames, kindTotals, volumeBars, volumeText } from "./volume-view.ts";

const volumeIntervalMs = 60_000;

/** What core stored for a host in the last two days: a bar for each hour, the sum of each kind, and a table for screen readers. */
export const Volume = (props: { identityId: string }) => {
  const { api, times } = usePageContext();
  const report = createReport({
    api,
    schema: HostVolume,
    path: createMemo(() => `/api/core/collector/health/${props.identityId}/volume`),
    intervalMs: volumeIntervalMs,
  });
  const volume = () => report.current();
  const hoursSent = () => volume()?.hours.filter(({ kinds }) => kinds.length > 0) ?? [];
  return (
    <Show
      when={volume()}
      fallback={<p class="drawer-quiet">{report.state().problem ? "The volume could not be loaded." : "Loading"}</p>}
    >
      {(known) => (
        <Show when={hoursSent().length > 0} fallback={<p class="drawer-quiet">Nothing in the last 48 hours.</p>}>
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
          <table class="visually-hidden">
            <caption>Envelopes of the last 48 hours, by hour and kind</caption>
            <thead>
              <tr>
                <th scope="col">Hour from</th>
                <th scope="col">Kind</th>
                <th scope="col">Stored</th>
              </tr>
            </thead>
            <tbody>
              <Index each={hoursSent()}>
                {(hour) => (
                  <Index each={kindTotals({ hours: [hour()] })}>
                    {(total) => (
                      <tr>
                        <th scope="row">{formatTimestamp(hour().from, times.zone())}</th>
                        <td>{kindNames[total().kind]}</td>
                        <td>{volumeText(total())}</td>
                      </tr>
                    )}
                  </Index>
                )}
              </Index>
            </tbody>
          </table>
        </Show>
      )}
    </Show>
  );
};
