import { useParams } from "@solidjs/router";
import { createMemo, Match, Switch } from "solid-js";
import { FleetHealthDetail } from "../../../proto/fleet-health/report.ts";
import { createReport } from "../api/create-report.ts";
import { StateMark } from "../design/icon.tsx";
import { LoadFailure } from "../design/load-failure.tsx";
import { Detail } from "../fleet/drawer/detail.tsx";
import { plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import "../design/page.css";

/** `/hosts/{id}`: one host. */
export const HostPage = () => {
  const { api } = usePageContext();
  const params = useParams<{ host: string }>();
  const report = createReport({
    api,
    schema: FleetHealthDetail,
    path: createMemo(() => `/api/core/collector/health/${params.host}`),
    intervalMs: 10_000,
  });
  const detail = () => report.answer()?.value;
  createPageTitle(() => (detail() ? plainText(detail()?.item.device_id ?? "") : "Host"));
  return (
    <Switch fallback={<p role="status">Loading</p>}>
      <Match when={detail()}>
        {(known) => (
          <div class="page">
            <h1>{plainText(known().item.device_id)}</h1>
            <StateMark state={known().item.state} />
            <Detail detail={known()} />
          </div>
        )}
      </Match>
      <Match when={report.state().problem}>
        {(problem) => (
          <LoadFailure title={<h1>The host could not be loaded</h1>} problem={problem()} onRetry={report.refresh} />
        )}
      </Match>
    </Switch>
  );
};
