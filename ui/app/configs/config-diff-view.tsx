import { createMemo, For, Show } from "solid-js";
import { ConfigDetail } from "#proto/fleet-health/config-report.ts";
import { createReport } from "../api/live-report.tsx";
import { Loaded, Section } from "../design/report-parts.tsx";
import { formatCountOf, plainText } from "../format/format.ts";
import { diffOf } from "./config-diff.ts";
import { CompareChoice } from "./config-text.tsx";
import { configName } from "./progress-view.ts";

/** What changed from another config to this one, line by line. */
export const ConfigDiffView = (props: { config: ConfigDetail; otherId: string }) => {
  const report = createReport({
    schema: ConfigDetail,
    path: () => `/api/core/collector/configs/${encodeURIComponent(props.otherId)}`,
    // A published text never changes.
    intervalMs: 600_000,
  });
  const other = report.current;
  const lines = createMemo(() => {
    const before = other();
    return before && diffOf(before.yaml, props.config.yaml);
  });
  const counted = (kind: "added" | "removed") =>
    (lines() ?? []).filter((line) => line.kind === kind).length;
  return (
    <Section
      id="diff"
      title={
        <>
          Changes
          <Show when={other()}>
            {(known) => (
              <>
                {" from "}
                <a href={`/changes/configs/${known().id}`}>{plainText(configName(known()))}</a>
              </>
            )}
          </Show>
        </>
      }
      tools={<CompareChoice configId={props.config.id} chosen={props.otherId} />}
    >
      <Loaded
        report={report}
        what="other config"
        missing="There is no such config to compare with"
        value={lines()}
      >
        {(known) => (
          <Show when={known().length > 0} fallback={<p>The texts are equal.</p>}>
            <p>
              {formatCountOf(counted("added"), "line")} added,{" "}
              {formatCountOf(counted("removed"), "line")} removed.
              <Show when={other()?.config_hash === props.config.config_hash}>
                {" "}
                Only comments or formatting changed, nothing that collectors read.
              </Show>
            </p>
            {/* A region that scrolls must be reachable by keyboard (WCAG 2.1.1). */}
            <section class="code" aria-label="Changed lines" tabindex="0">
              <ol class="diff-lines">
                <For each={known()}>
                  {(line) => (
                    <Show
                      when={line.kind !== "skipped" && line}
                      fallback={
                        <li data-kind="skipped">
                          {`… ${formatCountOf(line.kind === "skipped" ? line.lines : 0, "unchanged line")}`}
                        </li>
                      }
                    >
                      {(shown) => (
                        <li data-kind={shown().kind}>
                          <span class="diff-number">{shown().before}</span>
                          <span class="diff-number">{shown().after}</span>
                          <span class="diff-sign">{signs[shown().kind]}</span>
                          {plainText(shown().text)}
                        </li>
                      )}
                    </Show>
                  )}
                </For>
              </ol>
            </section>
          </Show>
        )}
      </Loaded>
      <p>
        <a href={`/changes/configs/${props.config.id}`}>Show the whole text</a>
      </p>
    </Section>
  );
};

const signs = { same: "", added: "+", removed: "−" } as const;
