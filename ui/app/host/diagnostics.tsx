import { createMemo, createSignal, Match, Show, Switch } from "solid-js";
import { HostDiagView } from "../../../proto/operator/host-diag.ts";
import { ApiProblem, parseAnswer } from "../api/api-client.ts";
import { createReport } from "../api/create-report.ts";
import { usePageContext } from "../session/page-context.tsx";
import { Time } from "../shell/time.tsx";

const refusals: Readonly<Record<NonNullable<HostDiagView["refusal"]>, string>> = {
  forbidden: "The host's own config forbids it: management.remote_diag is false.",
  too_large: "The host's diagnostics are over the limit: run svc-collector diag on the host.",
};

/** Requests the diagnostics of a host, waits for them and links to them; for admins. */
export const Diagnostics = (props: { id: string }) => {
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
      if (!(error instanceof ApiProblem)) throw error;
      setProblem(error);
    }
  };
  return (
    <section class="page-section" aria-labelledby="host-diagnostics">
      <h3 id="host-diagnostics">Diagnostics</h3>
      <p class="quiet">
        What svc-collector diag prints on the host: no keys, tokens or telemetry. Nothing changes
        there.
      </p>
      <p>
        <button class="button" type="button" onClick={() => void request()}>
          Fetch diagnostics
        </button>
      </p>
      <div role="status">
        <Show when={problem()}>{(known) => <p>{known().message}</p>}</Show>
        <Show when={asked()} keyed>
          {(diag) => <Answer path={`${path()}/${diag.id}`} />}
        </Show>
      </div>
    </section>
  );
};

const Answer = (props: { path: string }) => {
  const isAnswered = (): boolean => (report.current()?.state ?? "pending") !== "pending";
  const report = createReport({
    schema: HostDiagView,
    path: createMemo(() => props.path),
    intervalMs: 1_000,
    paused: isAnswered,
    // An answer does not grow old.
    showsAge: true,
  });
  return (
    <Show when={report.current()}>
      {(diag) => (
        <Switch>
          <Match when={diag().state === "pending"}>
            <p>
              Waiting for the host, until <Time at={diag().answer_by} asOf={report.asOf()} /> at
              most.
            </p>
          </Match>
          <Match when={diag().state === "received"}>
            <p>
              <a href={`${props.path}/bundle`} download="">
                Download the diagnostics
              </a>{" "}
              <span class="quiet">
                kept until <Time at={diag().expires_at} asOf={report.asOf()} />
              </span>
            </p>
          </Match>
          <Match when={diag().refusal}>{(refusal) => <p>{refusals[refusal()]}</p>}</Match>
          <Match when={diag().state === "unanswered"}>
            <p>The host did not answer in time. Its last heartbeat is shown above.</p>
          </Match>
        </Switch>
      )}
    </Show>
  );
};
