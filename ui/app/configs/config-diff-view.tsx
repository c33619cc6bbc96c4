import { createTwoFilesPatch } from "diff";
import { createMemo, Show } from "solid-js";
import { ConfigDetail } from "#proto/fleet-health/config-report.ts";
import { createReport } from "../api/live-report.tsx";
import { Loaded, Section } from "../design/report-parts.tsx";
import { formatCountOf, plainText } from "../format/format.ts";
import { CompareChoice, Patch, patchLines } from "./config-text.tsx";
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
  const patch = createMemo(() => {
    const before = other();
    return before && createTwoFilesPatch("", "", before.yaml, props.config.yaml);
  });
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
        value={patch()}
      >
        {(text) => (
          <Show when={patchLines(text()).length > 0} fallback={<p>The texts are equal.</p>}>
            <p>
              {countOf(text(), "+")} added, {countOf(text(), "-")} removed.
              <Show when={other()?.config_hash === props.config.config_hash}>
                {" "}
                Only comments or formatting changed.
              </Show>
            </p>
            <Patch text={text()} />
          </Show>
        )}
      </Loaded>
      <p>
        <a href={`/changes/configs/${props.config.id}`}>Show the whole text</a>
      </p>
    </Section>
  );
};

const countOf = (patch: string, sign: "+" | "-") =>
  formatCountOf(patchLines(patch).filter((line) => line.startsWith(sign)).length, "line");
