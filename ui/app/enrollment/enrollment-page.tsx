import { useLocation } from "@solidjs/router";
import { createMemo, createSignal, Show } from "solid-js";
import { EnrollmentReport } from "../../../proto/operator/enrollment.ts";
import { createReport } from "../api/create-report.ts";
import { Chips } from "../design/chips.tsx";
import { LoadFailure } from "../design/load-failure.tsx";
import { formatKnown } from "../format/format.ts";
import { PageHead } from "../shell/page-head.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import {
  parseEnrollmentView,
  policiesPath,
  policyWords,
  tokenStatesShown,
  tokensPath,
  tokenWords,
} from "./enrollment-view.ts";
import { Policies } from "./policies.tsx";
import { Refusals } from "./refusals.tsx";
import { Tokens } from "./tokens.tsx";
import "../design/page.css";
import "./enrollment.css";

/** `/enrollment`: which tokens enroll hosts now, under which policies, and what was rejected in the last day. */
export const EnrollmentPage = () => {
  const location = useLocation();
  const [paused, setPaused] = createSignal(false);
  createPageTitle(() => "Enrollment");
  const view = createMemo(() => parseEnrollmentView(location.search));
  const report = createReport({
    schema: EnrollmentReport,
    path: () => "/api/core/collector/enrollment",
    intervalMs: 15_000,
    paused,
  });
  const counts = () => report.answer()?.value;
  return (
    <div class="page">
      <PageHead title="Enrollment" report={report} paused={paused()} onPause={setPaused} />
      <Show
        when={view().unknown}
        fallback={
          <>
            <Show when={report.phase() === "failed" && report.state().problem}>
              {(problem) => (
                <LoadFailure
                  title={<h2>The counts could not be loaded</h2>}
                  problem={problem()}
                  onRetry={report.refresh}
                />
              )}
            </Show>
            <section class="enrollment-part" aria-labelledby="tokens">
              <h2 id="tokens">Bootstrap tokens</h2>
              <Chips
                label="Tokens by state"
                chips={[
                  { words: "All", path: tokensPath(), isChosen: view().tokens.size === 0 },
                  ...tokenStatesShown.map((state) => ({
                    words: `${tokenWords[state]} ${formatKnown(counts()?.tokens[state])}`,
                    path: tokensPath({ state }),
                    isChosen: view().tokens.toString() === `state=${state}`,
                  })),
                ]}
              />
              <Tokens view={view()} paused={paused()} />
            </section>
            <section class="enrollment-part" aria-labelledby="policies">
              <h2 id="policies">Policies</h2>
              <Chips
                label="Policies by state"
                chips={[
                  { words: "All", path: policiesPath(), isChosen: view().policies.size === 0 },
                  ...(["active", "frozen"] as const).map((state) => ({
                    words: `${policyWords[state]} ${formatKnown(counts()?.policies[state])}`,
                    path: policiesPath({ policy: state }),
                    isChosen: view().policies.get("state") === state,
                  })),
                ]}
              />
              <Policies view={view()} paused={paused()} />
            </section>
            <Show when={counts()}>
              {(known) => <Refusals report={known()} asOf={report.asOf()} />}
            </Show>
          </>
        }
      >
        {(name) => (
          <section class="notice" role="alert">
            <h2>This link has a filter that the page does not understand</h2>
            <p>
              The parameter is <code>{name()}</code>. Nothing is shown, because other rows than
              those it meant could appear.
            </p>
            <a class="button" href="/enrollment">
              Show everything
            </a>
          </section>
        )}
      </Show>
    </div>
  );
};
