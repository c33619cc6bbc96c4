import { For, Match, Show, Switch } from "solid-js";
import { enrollCommandLine } from "#proto/enroll-command.ts";
import { Setup, type SetupStep } from "#proto/operator/setup.ts";
import { createReport } from "../api/live-report.tsx";
import { CopiedCommand } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { LoadFailure } from "../design/report-parts.tsx";
import { usePageContext } from "../session/page-context.tsx";
import "./first-host.css";

const titles: Record<SetupStep, string> = {
  directory: "Directory with an admin",
  signer: "Certificates for hosts",
  ingest: "Ingest listener",
  policy: "Enrollment policy",
  token: "Bootstrap token",
  host: "First host",
};

/** What only the configuration of core can change. */
const settings: Partial<Record<SetupStep, string>> = {
  directory: "SVC_DIRECTORY_PROVIDER",
  signer: "SVC_ENROLLMENT_CA_CERT_FILE",
  ingest: "SVC_INGEST_GRPC_ADDR",
};

/** A fleet without hosts: which steps are done, and the commands of the next ones. An auditor sees who can take them. */
export const FirstHost = () => {
  const report = createReport({
    schema: Setup,
    path: () => "/api/core/collector/setup",
    intervalMs: 10_000,
    showsAge: true,
  });
  return (
    <section class="notice first-host">
      <h2>No host is enrolled yet</h2>
      <LoadFailure
        what="steps"
        level="h3"
        problem={report.failure()}
        onRetry={() => report.refresh()}
      />
      <Show when={report.answer()?.value}>
        {(known) => (
          <>
            <ol class="first-host-steps">
              <For each={known().steps}>
                {({ step, done, detail }) => (
                  <li classList={{ "first-host-done": done }}>
                    <Icon name={done ? "check" : "warning"} />
                    <span>
                      {titles[step]}: <strong>{done ? "done" : "missing"}</strong>
                      <small>{detail}</small>
                    </span>
                  </li>
                )}
              </For>
            </ol>
            <NextSteps setup={known()} />
          </>
        )}
      </Show>
    </section>
  );
};

/** What to do next: who can do it, what core's configuration lacks, or the commands. */
const NextSteps = (props: { setup: Setup }) => {
  const { session } = usePageContext();
  const blocking = () =>
    props.setup.steps.filter(({ step, done }) => !done && settings[step] !== undefined);
  return (
    <Switch fallback={<Commands setup={props.setup} />}>
      <Match when={!session()?.scopes.includes("admin")}>
        <p>
          An admin enrolls hosts: ask a member of the directory’s group <code>svc-admin</code> to
          run <code>svc-admin init</code>. Your scopes let you watch: the first host appears here at
          once.
        </p>
      </Match>
      <Match when={blocking().length > 0}>
        <p>
          Set{" "}
          <For each={blocking()}>
            {({ step }, index) => (
              <>
                {index() > 0 ? ", " : ""}
                <code>{settings[step]}</code>
              </>
            )}
          </For>{" "}
          and related variables in core’s configuration, and restart core.
        </p>
      </Match>
    </Switch>
  );
};

const Commands = (props: { setup: Setup }) => {
  const hostCommand = () =>
    enrollCommandLine({
      coreUrl: props.setup.core_url,
      ingestAddress: props.setup.ingest_address,
      identityPrefix: props.setup.policy?.identity_prefix ?? null,
      tokenFile: "bootstrap.token",
      caBundle: "ca.pem",
    });
  return (
    <>
      <h3>On your machine</h3>
      <CopiedCommand text={`svc-admin init --url ${location.origin}`} what="the admin’s command" />
      <p>It creates what is missing, and writes the token to a file that only you can read.</p>
      <h3>On the host, with that file and core’s CA</h3>
      <CopiedCommand text={hostCommand()} what="the host’s command" />
      <p>
        Then <code>svc-collector run</code>. With the package, run the command as{" "}
        <code>svc-collector</code>, then <code>sudo systemctl start svc-collector</code>. The host
        appears here at once, as “Enrolling”.
        <Show when={props.setup.core_url === null || props.setup.ingest_address === null}>
          {" "}
          Core does not know its addresses for hosts: replace <code>core.example.com</code>, or set{" "}
          <code>SVC_ADVERTISED_CORE_URL</code> and <code>SVC_ADVERTISED_INGEST_ADDR</code>.
        </Show>
      </p>
    </>
  );
};
