import { useNavigate } from "@solidjs/router";
import { createSignal, For, Show } from "solid-js";
import { ConfigList } from "#proto/fleet-health/config-report.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { Button, CopyButton } from "../design/buttons.tsx";
import { Loaded, Section } from "../design/report-parts.tsx";
import { plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { configName, linesOf } from "./progress-view.ts";

/** The published text with line numbers, a button that copies it as it is, and the choice of a config to compare it with. */
export const ConfigText = (props: { yaml: string; configId: string }) => (
  <Section
    id="text"
    title={
      <>
        Text <CopyButton text={props.yaml} what="the text" />
      </>
    }
    tools={<CompareChoice configId={props.configId} />}
  >
    {/* A region that scrolls must be reachable by keyboard (WCAG 2.1.1). */}
    <section class="code" aria-label="YAML, by line" tabindex="0">
      <ol class="code-lines">
        <For each={linesOf(props.yaml)}>
          {(line) => <li>{line === "" ? "\u200b" : plainText(line)}</li>}
        </For>
      </ol>
    </section>
  </Section>
);

/** Returns the lines of a unified diff without the names of its files; none for equal texts. */
export const patchLines = (text: string): string[] =>
  text.includes("@@") ? linesOf(text.slice(text.indexOf("@@"))) : [];

const kinds: Readonly<Record<string, "added" | "removed" | "skipped">> = {
  "+": "added",
  "-": "removed",
  "@": "skipped",
  "\\": "skipped",
};

/** A unified diff, its added and removed lines marked. */
export const Patch = (props: { text: string }) => (
  <section class="code" aria-label="Changed lines" tabindex="0">
    <ol class="diff-lines">
      <For each={patchLines(props.text)}>
        {(line) => <li data-kind={kinds[line.charAt(0)] ?? "same"}>{plainText(line)}</li>}
      </For>
    </ol>
  </section>
);

const choicesMax = 500;

/** A list of the other configs, newest first; choosing one opens the diff from it to this one. */
export const CompareChoice = (props: { configId: string; chosen?: string }) => {
  const { times } = usePageContext();
  const navigate = useNavigate();
  const [isWanted, setWanted] = createSignal(false);
  const report = createReport({
    schema: ConfigList,
    path: () => (isWanted() ? `/api/core/collector/configs?limit=${choicesMax}` : undefined),
  });
  const others = () => report.value()?.items.filter(({ id }) => id !== props.configId);
  return (
    <form
      class="compare"
      onSubmit={(event) => {
        event.preventDefault();
        const compare = String(new FormData(event.currentTarget).get("compare") ?? "");
        if (compare !== "")
          navigate(withQuery(`/changes/configs/${props.configId}`, { compare }), { scroll: false });
      }}
    >
      <Show
        when={isWanted()}
        fallback={
          <Button onClick={() => setWanted(true)}>
            {props.chosen === undefined ? "Compare with another config" : "Compare with another"}
          </Button>
        }
      >
        <Loaded report={report} what="configs" value={others()}>
          {(configs) => (
            <Show
              when={configs().length > 0}
              fallback={<p class="quiet">No other config has been published.</p>}
            >
              <label>
                Compare with
                <select class="input" name="compare" autofocus>
                  <For each={configs()}>
                    {(config) => (
                      <option value={config.id} selected={config.id === props.chosen}>
                        {plainText(configName(config))},{" "}
                        {times.text(config.created_at).slice(0, 16)},{" "}
                        {config.config_hash.slice(0, 6)}
                      </option>
                    )}
                  </For>
                </select>
              </label>
              <button class="button" type="submit">
                Compare
              </button>
            </Show>
          )}
        </Loaded>
      </Show>
    </form>
  );
};
