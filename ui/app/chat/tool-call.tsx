import { For, Match, Show, Switch } from "solid-js";
import type { ToolName, ToolResult } from "../../../proto/chat/tools.ts";
import { CopyButton } from "../design/copy-button.tsx";
import { Icon } from "../design/icon.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import type { ShownPart } from "./answer-parts.ts";

const rowsShown = 20;

const names: Readonly<Record<ToolName, string>> = {
  query_sql: "Query",
  list_tables: "List of tables",
  describe_table: "Description of a table",
};

/** Returns the outcome of a call in few words: `12 rows`, `failed`. */
export const outcomeOf = (result: ToolResult): string => {
  if (result.kind === "error") return "failed";
  if (result.kind === "relations") return formatCountOf(result.relations.length, "table");
  if (result.kind === "relation") return formatCountOf(result.columns.length, "column");
  return `${formatCountOf(result.row_count, "row")}${result.truncated ? ", cut off" : ""}`;
};

/** A tool call of an answer, closed at first: its SQL, and the first rows of its result. */
export const ToolCall = (props: {
  call: Extract<ShownPart, { type: "tool" }>;
  answering: boolean;
}) => {
  const statement = () => {
    const { statement, name } = props.call.input;
    return String(statement ?? name ?? "");
  };
  const result = <Kind extends ToolResult["kind"]>(kind: Kind) => {
    const { result } = props.call;
    return result?.kind === kind ? (result as Extract<ToolResult, { kind: Kind }>) : undefined;
  };
  return (
    <details class="tool-call">
      <summary>
        <Icon name={props.call.name === "query_sql" ? "search" : "columns"} />
        <span>{names[props.call.name]}</span>
        <span class="tool-outcome">
          {props.call.result
            ? outcomeOf(props.call.result)
            : props.answering
              ? "running"
              : "no result"}
        </span>
      </summary>
      <div class="tool-body">
        <Show when={statement()}>
          {(text) => (
            <div class="copied">
              <figure class="tool-sql" tabindex="0" aria-label="Statement">
                <code>{plainText(text())}</code>
              </figure>
              <CopyButton text={text()} what="statement" />
            </div>
          )}
        </Show>
        <Switch>
          <Match when={result("error")}>
            {(error) => <p class="tool-note">{plainText(error().message)}</p>}
          </Match>
          <Match when={result("rows")}>{(rows) => <Rows result={rows()} />}</Match>
          <Match when={result("relations")}>
            {(relations) => (
              <Facts
                facts={relations().relations.map(({ name, description }) => ({
                  name,
                  type: "",
                  description,
                }))}
                label="Tables"
              />
            )}
          </Match>
          <Match when={result("relation")}>
            {(relation) => (
              <Facts
                facts={relation().columns}
                label={`Columns of ${plainText(relation().name)}`}
              />
            )}
          </Match>
        </Switch>
      </div>
    </details>
  );
};

/** The first rows of a result, in a figure that scrolls sideways: a region of each call would be a landmark of the same name. */
const Rows = (props: { result: Extract<ToolResult, { kind: "rows" }> }) => {
  const more = () => props.result.row_count - Math.min(rowsShown, props.result.rows.length);
  return (
    <>
      <Show when={props.result.rows.length > 0} fallback={<p class="tool-note">No rows.</p>}>
        <figure class="tool-table" tabindex="0" aria-label="Rows">
          <table>
            <thead>
              <tr>
                <For each={props.result.columns}>
                  {({ name }, column) => (
                    <th
                      scope="col"
                      data-number={
                        typeof props.result.rows[0]?.[column()] === "number" ? "" : undefined
                      }
                    >
                      {plainText(name)}
                    </th>
                  )}
                </For>
              </tr>
            </thead>
            <tbody>
              <For each={props.result.rows.slice(0, rowsShown)}>
                {(row) => (
                  <tr>
                    <For each={row}>
                      {(value) => (
                        <td data-number={typeof value === "number" ? "" : undefined}>
                          <Show
                            when={value !== null}
                            fallback={<span class="tool-note">null</span>}
                          >
                            <bdi>
                              {plainText(
                                typeof value === "object" ? JSON.stringify(value) : String(value),
                              )}
                            </bdi>
                          </Show>
                        </td>
                      )}
                    </For>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </figure>
      </Show>
      <Show when={more() > 0 || props.result.truncated}>
        <p class="tool-note">
          <Show when={more() > 0}>{formatCount(more())} more in the download. </Show>
          <Show when={props.result.truncated}>The result was cut off at a limit.</Show>
        </p>
      </Show>
    </>
  );
};

/** Names with their descriptions. */
const Facts = (props: {
  facts: readonly { name: string; type: string; description: string }[];
  label: string;
}) => (
  <figure class="tool-table" tabindex="0" aria-label={props.label}>
    <dl class="tool-facts">
      <For each={props.facts}>
        {({ name, type, description }) => (
          <>
            <dt>
              <code>{plainText(name)}</code> <span class="tool-note">{plainText(type)}</span>
            </dt>
            <dd>{plainText(description)}</dd>
          </>
        )}
      </For>
    </dl>
  </figure>
);
