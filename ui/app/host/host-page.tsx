import { useLocation, useNavigate, useParams } from "@solidjs/router";
import { createMemo, createResource, createSignal, Match, Show, Switch } from "solid-js";
import { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { CertificatePage, type CertificateView } from "#proto/operator/certificate.ts";
import { HostDiagView } from "#proto/operator/host-diag.ts";
import { isUuid } from "#proto/values.ts";
import { type ApiClient, type ApiProblem, caughtProblem, parseAnswer } from "../api/api-client.ts";
import { createReport, UpdatesProvider } from "../api/live-report.tsx";
import { RecordEvents, RefusedHosts } from "../audit/record-events.tsx";
import { decoded } from "../browser/decoded.ts";
import { HostHours } from "../completeness/host-hours.tsx";
import { Button, CopiedCommand, CopyButton } from "../design/buttons.tsx";
import { StateMark } from "../design/icon.tsx";
import { LabelLinks, type RecordColumns, RecordTable } from "../design/record-table.tsx";
import {
  List,
  Loaded,
  LoadFailure,
  Loading,
  Notice,
  Section,
  Shown,
  Why,
} from "../design/report-parts.tsx";
import { WithCode } from "../design/with-code.tsx";
import { HostName, Reasons, Reported } from "../fleet/drawer/detail.tsx";
import { formatUntil, plainText, shortened } from "../format/format.ts";
import { RolloutsOf } from "../rollouts/rollout-parts.tsx";
import { usePageContext } from "../session/page-context.tsx";
import { createPage, PageHead, Time, TimeCell } from "../shell/page.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import "./host.css";

/** `/hosts/{host}`: one host by its id. An identity or a device id leads to the host of that name. */
export const HostPage = () => {
  const params = useParams<{ host: string }>();
  const name = createMemo(() => decoded(params.host));
  const id = () => name().toLowerCase();
  return (
    <Show when={isUuid(id())} fallback={<HostByName name={name()} />}>
      <Host id={id()} />
    </Show>
  );
};

const Host = (props: { id: string }) => {
  const page = createPage({
    title: (known) => plainText(known?.item.device_id ?? "Host"),
    schema: FleetHealthDetail,
    path: () => `/api/core/collector/health/${props.id}`,
    intervalMs: 10_000,
  });
  const { report, paused } = page;
  return (
    <Switch fallback={<Loading />}>
      <Match when={report.current()}>
        {(known) => (
          <UpdatesProvider value={{ paused, asOf: report.asOf }}>
            <div class="page host">
              <header class="host-head stack gap-1">
                <PageHead of={page} />
                <p class="host-state row">
                  <StateMark state={known().item.state} />
                  <a href={`/fleet?id=${props.id}`}>Show it in the fleet</a>
                </p>
                <HostName host={known().item} spelled={plainText} />
                <LabelLinks labels={known().item.labels} />
              </header>
              <Shown by={report}>
                <HostParts id={props.id} detail={known()} />
              </Shown>
            </div>
          </UpdatesProvider>
        )}
      </Match>
      <Match when={report.state().problem?.status === 404}>
        <NoSuchHost />
      </Match>
      <Match when={report.state().problem}>
        <LoadFailure
          what="host"
          level="h1"
          problem={report.state().problem}
          onRetry={report.refresh}
        />
      </Match>
    </Switch>
  );
};

/** What is known about a host: why it is in its state, its hours, its state beside its history, its certificates. */
const HostParts = (props: { id: string; detail: FleetHealthDetail }) => {
  const { session } = usePageContext();
  const isOpamp = () => props.detail.item.agent === "otelcol";
  return (
    <>
      <h2 class="visually-hidden">State</h2>
      <Reasons detail={props.detail} />
      <Show when={!isOpamp()}>
        <HostHours id={props.id} />
      </Show>
      <div class="host-columns stack">
        <div class="host-column stack">
          <h2 class="visually-hidden">What it reports</h2>
          <Reported detail={props.detail} />
        </div>
        <History id={props.id} detail={props.detail} />
      </div>
      <Certificates id={props.id} />
      <Show when={session()?.scopes.includes("admin")}>
        <Show when={isOpamp()} fallback={<Diagnostics id={props.id} />}>
          <Restart device={props.detail.item.device_id} />
        </Show>
      </Show>
    </>
  );
};

const History = (props: { id: string; detail: FleetHealthDetail }) => {
  const location = useLocation();
  const cursor = () => new URLSearchParams(location.search).get("cursor") ?? undefined;
  return (
    <div class="host-column stack">
      <h2 class="visually-hidden">History</h2>
      <RecordEvents
        id={props.id}
        title="Config history"
        kind="config"
        drift={props.detail.item.config.drift}
      />
      <Section id="host-rollouts" title="Rollouts" level="h3">
        <RolloutsOf
          of="identity_id"
          id={props.id}
          what="this host"
          none="No rollout has had this host as a target."
        />
      </Section>
      <RecordEvents id={props.id} title="Failures" kind="failure" />
      <RecordEvents
        id={props.id}
        title="Timeline"
        kind="all"
        cursor={cursor()}
        outages={props.detail.outages}
      />
    </div>
  );
};

const NoSuchHost = () => (
  <Notice title="No such host" level="h1" isFault href="/fleet" link="Show the fleet">
    <p>No host has this id, identity or device id. The link may belong to another deployment.</p>
  </Notice>
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
      if (caughtProblem(error).status !== 422) throw error;
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
      } catch (error) {
        return { problem: caughtProblem(error) };
      }
    },
  );
  return (
    <Switch fallback={<Loading />}>
      <Match when={hosts()?.problem}>
        <LoadFailure
          what="host"
          level="h1"
          problem={hosts()?.problem}
          onRetry={() => void refetch()}
        />
      </Match>
      <Match when={hosts()?.found?.length === 0}>
        <div class="page">
          <NoSuchHost />
          <RefusedHosts name={props.name} />
        </div>
      </Match>
      <Match when={(hosts()?.found?.length ?? 0) > 1}>
        <Notice title={`Several hosts have the device id ${plainText(props.name)}`} level="h1">
          <List of={hosts()?.found ?? []}>
            {(host) => <a href={`/hosts/${host.identity_id}`}>{plainText(host.identity)}</a>}
          </List>
        </Notice>
      </Match>
    </Switch>
  );
};

/** The certificates of a host, newest first: serial number, fingerprint, dates, status and successor. */
const Certificates = (props: { id: string }) => {
  const report = createReport({
    schema: CertificatePage,
    path: () => `/api/core/collector/identities/${props.id}/certificates?limit=100`,
  });
  const columns = certificateColumns(
    ({ id }) => report.current()?.items.find((other) => other.predecessor_id === id),
    report.asOf,
  );
  return (
    <Section id="certificates" title="Certificates" level="h3">
      <Loaded report={report} what="certificates">
        {(known) => (
          <>
            <RecordTable
              label="Certificates, newest first"
              columns={columns}
              rows={known().items}
            />
            <Show when={known().next_cursor !== null}>
              <p class="quiet">The newest 100 certificates. The API lists all of them.</p>
            </Show>
          </>
        )}
      </Loaded>
    </Section>
  );
};

const certificateColumns = (
  successorOf: (certificate: CertificateView) => CertificateView | undefined,
  asOf: () => number,
): RecordColumns<CertificateView> => ({
  Serial: ({ serial_number: serial }) => <Copied text={serial} what="serial number" />,
  "SHA-256": ({ fingerprint_sha256: print }) => <Copied text={print} what="fingerprint" />,
  Status: (certificate) => <Status certificate={certificate} />,
  Issued: ({ issued_at: at }) => <Time at={at} />,
  "First used": ({ first_used_at: at }) => <TimeCell at={at} none="never" />,
  Expires: ({ not_after: at }) => (
    <>
      <Time at={at} /> <span class="quiet">{formatUntil(at, asOf())}</span>
    </>
  ),
  Successor: (certificate) => (
    <Show when={successorOf(certificate)} fallback={<span class="quiet">none</span>}>
      {(successor) => (
        <code title={successor().serial_number}>{shortened(successor().serial_number)}</code>
      )}
    </Show>
  ),
});

const Copied = (props: { text: string; what: string }) => (
  <span class="copied">
    <code title={props.text}>{shortened(props.text)}</code>
    <CopyButton text={props.text} what={props.what} />
  </span>
);

const Status = (props: { certificate: CertificateView }) => (
  <>
    {props.certificate.status}
    <Show when={props.certificate.revoked_at ?? props.certificate.replaced_at}>
      {(at) => (
        <span class="quiet">
          {" "}
          since <Time at={at()} />
        </span>
      )}
    </Show>
  </>
);

/** How an admin restarts an agent that speaks OpAMP. */
const Restart = (props: { device: string }) => (
  <Section id="host-restart" title="Restart" level="h3">
    <p class="quiet">
      Core sends the restart command to the agent, at once or in answer to its next poll.
    </p>
    <CopiedCommand text={`svc-admin hosts restart ${props.device}`} what="the command" />
  </Section>
);

const refusals: Readonly<Record<NonNullable<HostDiagView["refusal"]>, string>> = {
  forbidden: "The host's own config forbids it: `management.remote_diag` is false.",
  too_large: "The host's diagnostics are over the limit: run `svc-collector diag` on the host.",
};

/** Requests the diagnostics of a host, waits for them and links to them; for admins. */
const Diagnostics = (props: { id: string }) => {
  const { api } = usePageContext();
  const [asked, setAsked] = createSignal<HostDiagView>();
  const [problem, setProblem] = createSignal<ApiProblem>();
  const path = () => `/api/core/collector/hosts/${props.id}/diags`;
  const request = async (): Promise<void> => {
    setProblem(undefined);
    try {
      const response = await api.send(path(), { method: "POST" });
      setAsked(parseAnswer(HostDiagView, await response.json(), response));
    } catch (error) {
      setProblem(caughtProblem(error));
    }
  };
  return (
    <Section id="host-diagnostics" title="Diagnostics" level="h3">
      <p class="quiet">
        The output of <code>svc-collector diag</code> on the host: no keys, tokens or telemetry. It
        changes nothing.
      </p>
      <p>
        <Button onClick={() => void request()}>Fetch diagnostics</Button>
      </p>
      <div role="status">
        <Show when={problem()}>
          {(known) => (
            <p>
              <Why problem={known()} />
            </p>
          )}
        </Show>
        <Show when={asked()} keyed>
          {(diag) => <Answer path={`${path()}/${diag.id}`} />}
        </Show>
      </div>
    </Section>
  );
};

const Answer = (props: { path: string }) => {
  const isAnswered = (): boolean => (report.current()?.state ?? "pending") !== "pending";
  const report = createReport({
    schema: HostDiagView,
    path: () => props.path,
    intervalMs: 1_000,
    paused: isAnswered,
    // An answer does not grow old.
    showsAge: true,
  });
  return (
    <UpdatesProvider value={{ paused: isAnswered, asOf: report.asOf }}>
      <Show when={report.current()}>
        {(diag) => (
          <Switch>
            <Match when={diag().state === "pending"}>
              <p>
                Waiting for the host, until <Time at={diag().answer_by} /> at most.
              </p>
            </Match>
            <Match when={diag().state === "received"}>
              <p>
                <a href={`${props.path}/bundle`} download="">
                  Download the diagnostics
                </a>{" "}
                <span class="quiet">
                  kept until <Time at={diag().expires_at} />
                </span>
              </p>
            </Match>
            <Match when={diag().refusal}>
              {(refusal) => (
                <p>
                  <WithCode text={refusals[refusal()]} />
                </p>
              )}
            </Match>
            <Match when={diag().state === "unanswered"}>
              <p>The host did not answer in time. Its last heartbeat is shown above.</p>
            </Match>
          </Switch>
        )}
      </Show>
    </UpdatesProvider>
  );
};
