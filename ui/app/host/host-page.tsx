import { useLocation, useNavigate, useParams } from "@solidjs/router";
import { createMemo, createResource, createSignal, For, Match, Show, Switch } from "solid-js";
import { FleetHealthDetail, FleetHealthReport } from "../../../proto/fleet-health/report.ts";
import { type ApiClient, ApiProblem } from "../api/api-client.ts";
import { createReport } from "../api/create-report.ts";
import { HostHours } from "../completeness/host-hours.tsx";
import { CopyButton } from "../design/copy-button.tsx";
import { StateMark } from "../design/icon.tsx";
import { LabelLinks } from "../design/label-links.tsx";
import { LoadFailure } from "../design/load-failure.tsx";
import { Detail } from "../fleet/drawer/detail.tsx";
import { plainText } from "../format/format.ts";
import { RolloutsOf } from "../rollouts/rollouts-of.tsx";
import { usePageContext } from "../session/page-context.tsx";
import { PageHead } from "../shell/page-head.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { Certificates } from "./certificates.tsx";
import { Diagnostics } from "./diagnostics.tsx";
import { HostEvents, RefusedHosts } from "./host-events.tsx";
import "../design/page.css";
import "./host.css";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** `/hosts/{host}`: one host by its id. An identity or a device id leads to the host of that name. */
export const HostPage = () => {
  const params = useParams<{ host: string }>();
  const name = createMemo(() => decoded(params.host));
  return (
    <Show when={uuid.test(name())} fallback={<HostByName name={name()} />}>
      <Host id={name().toLowerCase()} />
    </Show>
  );
};

const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
};

const Host = (props: { id: string }) => {
  const { session } = usePageContext();
  const [paused, setPaused] = createSignal(false);
  const location = useLocation();
  const cursor = () => new URLSearchParams(location.search).get("cursor") ?? undefined;
  const report = createReport({
    schema: FleetHealthDetail,
    path: createMemo(() => `/api/core/collector/health/${props.id}`),
    intervalMs: 10_000,
    paused,
  });
  const detail = report.current;
  createPageTitle(() => plainText(detail()?.item.device_id ?? "Host"));
  return (
    <Switch fallback={<Loading />}>
      <Match when={detail()}>
        {(known) => (
          <div class="page host">
            <header class="host-head">
              <PageHead
                title={plainText(known().item.device_id)}
                report={report}
                paused={paused()}
                onPause={setPaused}
              />
              <p class="host-state">
                <StateMark state={known().item.state} />
                <a href={`/fleet?id=${props.id}`}>Show it in the fleet</a>
              </p>
              <p class="copied">
                <code class="drawer-hash">{plainText(known().item.identity)}</code>
                <CopyButton text={known().item.identity} what="identity" />
              </p>
              <p class="quiet">
                <Show when={known().item.hostname}>
                  {(hostname) => (
                    <>
                      <bdi>{plainText(hostname())}</bdi> ·{" "}
                    </>
                  )}
                </Show>
                {plainText(known().item.platform)} · collector {plainText(known().item.version)}
              </p>
              <Show when={Object.keys(known().item.labels).length > 0}>
                <LabelLinks labels={known().item.labels} />
              </Show>
            </header>
            <div class="shown" data-shown={report.phase()}>
              <HostHours id={props.id} />
              <div class="host-columns">
                <div class="host-column">
                  <h2 class="visually-hidden">State</h2>
                  <Detail detail={known()} withoutTimeline />
                </div>
                <div class="host-column">
                  <h2 class="visually-hidden">History</h2>
                  <HostEvents
                    id={props.id}
                    title="Config history"
                    kind="config"
                    drift={known().item.config.drift}
                  />
                  <section class="page-section" aria-labelledby="host-rollouts">
                    <h3 id="host-rollouts">Rollouts</h3>
                    <RolloutsOf
                      of="identity_id"
                      id={props.id}
                      what="this host"
                      none="No rollout has had this host as a target."
                    />
                  </section>
                  <HostEvents id={props.id} title="Failures" kind="failure" />
                  <HostEvents
                    id={props.id}
                    title="Timeline"
                    kind="all"
                    cursor={cursor()}
                    outages={known().outages}
                  />
                </div>
              </div>
              <Certificates id={props.id} />
              <Show when={session()?.scopes.includes("admin")}>
                <Diagnostics id={props.id} />
              </Show>
            </div>
          </div>
        )}
      </Match>
      <Match when={report.state().problem?.status === 404}>
        <NoSuchHost />
      </Match>
      <Match when={report.state().problem}>
        {(problem) => (
          <LoadFailure
            title={<h1>The host could not be loaded</h1>}
            problem={problem()}
            onRetry={report.refresh}
          />
        )}
      </Match>
    </Switch>
  );
};

const NoSuchHost = () => (
  <section class="notice" role="alert">
    <h1>No such host</h1>
    <p>No host has this id, identity or device id. The link may belong to another deployment.</p>
    <a class="button" href="/fleet">
      Show the fleet
    </a>
  </section>
);

/** Finds hosts by their identity, else by their device id, which several may share. */
const findHosts = async (api: ApiClient, name: string): Promise<FleetHealthReport["items"]> => {
  for (const parameter of ["identity", "device"]) {
    try {
      const query = new URLSearchParams({ [parameter]: name, limit: "20" });
      const { items } = await api.get(`/api/core/collector/health?${query}`, FleetHealthReport);
      if (items.length > 0) return items;
    } catch (error) {
      // Too long for a device id.
      if (!(error instanceof ApiProblem) || error.status !== 422) throw error;
    }
  }
  return [];
};

const HostByName = (props: { name: string }) => {
  const { api } = usePageContext();
  const navigate = useNavigate();
  createPageTitle(() => "Host");
  const [hosts, { refetch }] = createResource(
    () => props.name,
    async (name) => {
      try {
        const found = await findHosts(api, name);
        const [only] = found;
        if (found.length === 1 && only !== undefined)
          navigate(`/hosts/${only.identity_id}`, { replace: true });
        return { found };
      } catch (problem) {
        if (problem instanceof ApiProblem) return { problem };
        throw problem;
      }
    },
  );
  return (
    <Switch fallback={<Loading />}>
      <Match when={hosts()?.problem}>
        {(problem) => (
          <LoadFailure
            title={<h1>The host could not be loaded</h1>}
            problem={problem()}
            onRetry={() => void refetch()}
          />
        )}
      </Match>
      <Match when={hosts()?.found?.length === 0}>
        <div class="page">
          <NoSuchHost />
          <RefusedHosts name={props.name} />
        </div>
      </Match>
      <Match when={(hosts()?.found?.length ?? 0) > 1}>
        <section class="notice">
          <h1>Several hosts have the device id {plainText(props.name)}</h1>
          <ul>
            <For each={hosts()?.found}>
              {(host) => (
                <li>
                  <a href={`/hosts/${host.identity_id}`}>{plainText(host.identity)}</a>
                </li>
              )}
            </For>
          </ul>
        </section>
      </Match>
    </Switch>
  );
};

const Loading = () => (
  <p class="page-loading" role="status">
    Loading
  </p>
);
