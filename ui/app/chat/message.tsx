import { For, Index, Match, Show, Switch } from "solid-js";
import type { ToolName, ToolResult } from "#proto/chat/session.ts";
import { messageText } from "#proto/chat/session.ts";
import type { ApiProblem } from "../api/api-client.ts";
import { Button, CopyButton } from "../design/buttons.tsx";
import { Icon, type ShapeName } from "../design/icon.tsx";
import { List, Why } from "../design/report-parts.tsx";
import { capitalised, formatCount, formatCountOf, plainText } from "../format/format.ts";
import { type ShownPart, shownParts, textPieces } from "./answer-parts.ts";
import type { ReceiptStatus } from "./check-answers.ts";
import type { ShownMessage } from "./conversation.ts";

/** How a receipt is shown, and what its status means; `reason` is that of an answer without a verified one. */
const receiptMarks: Readonly<
  Record<
    ReceiptStatus["kind"] | "ephemeral",
    readonly [icon: ShapeName, word: string, meaning: (reason: string) => string]
  >
> = {
  checking: ["info", "Checking receipt", () => ""],
  unsupported: [
    "info",
    "Cannot verify here",
    () => "This browser cannot check Ed25519 signatures, or the page was not loaded over https.",
  ],
  unavailable: [
    "info",
    "Receipt not loaded",
    (reason) =>
      `The receipts could not be loaded: ${reason}. Open the conversation again to retry.`,
  ],
  unverified: ["warning", "Unverified", (reason) => `Do not rely on this answer: ${reason}.`],
  verified: [
    "check",
    "Receipt verified",
    () =>
      "This browser checked the signatures: question, queries, results and answer are as core signed them. It cannot check whether the answer is right.",
  ],
  ephemeral: [
    "info",
    "Ephemeral key",
    () =>
      "This browser checked the signatures, not whether the answer is right. The key exists in this core's memory only: nothing else can vouch for it.",
  ],
};

/** Shows whether an answer is as core signed it. Opens to explain what that proves and how to check it elsewhere. */
const ReceiptBadge = (props: { status: ReceiptStatus }) => {
  const verified = () => (props.status.kind === "verified" ? props.status : undefined);
  const tone = () => (verified()?.ephemeral ? "ephemeral" : props.status.kind);
  const meaning = () =>
    receiptMarks[tone()][2]("reason" in props.status ? props.status.reason : "");
  return (
    <details class="receipt" data-status={tone()}>
      <summary>
        <Icon name={receiptMarks[tone()][0]} />
        {receiptMarks[tone()][1]}
        <Show when={verified()?.by?.provider === "mock"}> · {mockWords}</Show>
        <span class="visually-hidden">: the receipt of this answer</span>
      </summary>
      <div class="receipt-facts stack">
        <Show when={meaning()}>
          <p>{meaning()}</p>
        </Show>
        <Show when={verified()}>
          {(proof) => (
            <dl>
              <Show when={proof().by}>
                {(by) => (
                  <>
                    <dt>Answered by</dt>
                    <dd>{modelText(by())}</dd>
                  </>
                )}
              </Show>
              <dt>Receipts</dt>
              <dd>
                {formatCount(proof().first)} to {formatCount(proof().last)} of this conversation
              </dd>
              <dt>Key</dt>
              <dd>
                <code>{proof().keyIds.join(", ")}</code>
              </dd>
              <dt>SHA-256 of the answer</dt>
              <dd class="copied">
                <code>{proof().sha256}</code>
                <CopyButton text={proof().sha256} what="hash" />
              </dd>
            </dl>
          )}
        </Show>
        <p>
          To check it elsewhere, download the conversation and run{" "}
          <code>svc-server verify-receipts FILE</code>. It needs no network.
        </p>
      </div>
    </details>
  );
};

const mockWords = "built-in mock, not a language model";

/** Names what answers: `gpt-5 through openai`. */
export const modelText = ({ provider, model }: { provider: string; model: string }): string =>
  provider === "mock" ? capitalised(mockWords) : plainText(`${model} through ${provider}`);

const rowsShown = 20;

const toolNames: Readonly<Record<ToolName, string>> = {
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
const ToolCall = (props: { call: Extract<ShownPart, { type: "tool" }>; answering: boolean }) => {
  const statement = () => {
    const { statement, name } = props.call.input;
    return String(statement ?? name ?? "");
  };
  const result = <Kind extends ToolResult["kind"]>(kind: Kind) => {
    const { result } = props.call;
    return result?.kind === kind ? (result as Extract<ToolResult, { kind: Kind }>) : undefined;
  };
  const withoutResult = () => (props.answering ? "running" : "no result");
  return (
    <details class="tool-call">
      <summary>
        <Icon name={props.call.name === "query_sql" ? "search" : "columns"} />
        <span>{toolNames[props.call.name]}</span>
        <span class="tool-outcome">
          {props.call.result ? outcomeOf(props.call.result) : withoutResult()}
        </span>
      </summary>
      <div class="tool-body stack">
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
            {(known) => <Facts facts={known().relations} label="Tables" />}
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
  const hiddenRows = () => props.result.row_count - Math.min(rowsShown, props.result.rows.length);
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
      <Show when={hiddenRows() > 0 || props.result.truncated}>
        <p class="tool-note">
          <Show when={hiddenRows() > 0}>{formatCount(hiddenRows())} more in the download. </Show>
          <Show when={props.result.truncated}>The result was cut off at a limit.</Show>
        </p>
      </Show>
    </>
  );
};

/** Names with their descriptions. */
const Facts = (props: {
  facts: readonly { name: string; type?: string; description: string }[];
  label: string;
}) => (
  <figure class="tool-table" tabindex="0" aria-label={props.label}>
    <dl class="tool-facts">
      <For each={props.facts}>
        {({ name, type, description }) => (
          <>
            <dt>
              <code>{plainText(name)}</code> <span class="tool-note">{plainText(type ?? "")}</span>
            </dt>
            <dd>{plainText(description)}</dd>
          </>
        )}
      </For>
    </dl>
  </figure>
);

/** A question. */
export const QuestionMessage = (props: { message: ShownMessage }) => (
  <p class="chat-question" dir="auto">
    <span class="visually-hidden">You asked: </span>
    {plainText(messageText(props.message.parts))}
  </p>
);

/** An answer as it arrives: text and tool calls in their order, why it ended early, and its receipt. All of it is text. */
export const AnswerMessage = (props: {
  message: ShownMessage;
  receiptStatus: ReceiptStatus;
  /** Asks the question again; undefined where a later question exists. */
  onRetry: (() => void) | undefined;
}) => {
  const parts = () => shownParts(props.message.parts);
  const answering = () => props.message.status === "answering";
  return (
    <div class="chat-answer stack">
      <Index each={parts()}>
        {(part) => (
          <Switch>
            <Match when={ofType(part(), "text")}>
              {(text) => <AnswerText text={text().text} />}
            </Match>
            <Match when={ofType(part(), "tool")}>
              {(call) => <ToolCall call={call()} answering={answering()} />}
            </Match>
          </Switch>
        )}
      </Index>
      <Switch>
        {/* Later the field shows that the answer continues: below the text it would move with each line. */}
        <Match when={answering() && parts().length === 0}>
          <p class="chat-note">Thinking</p>
        </Match>
        <Match when={props.message.status === "aborted"}>
          <p class="chat-note">Stopped before the end.</p>
        </Match>
        <Match when={props.message.status === "failed"}>
          <AnswerFailed problem={props.message.problem} onRetry={props.onRetry} />
        </Match>
      </Switch>
      <Show when={!answering() && props.message.id !== ""}>
        <ReceiptBadge status={props.receiptStatus} />
      </Show>
    </div>
  );
};

const ofType = <Type extends ShownPart["type"]>(part: ShownPart, type: Type) =>
  part.type === type ? (part as Extract<ShownPart, { type: Type }>) : undefined;

/** Text by line, so that a list item's later lines are indented; paths of our pages are links. */
const AnswerText = (props: { text: string }) => (
  <p class="chat-text" dir="auto">
    <Index each={linesOf(props.text.trimEnd().replace(/^\n+/, ""))}>
      {(line) => (
        <span data-item={line().startsWith("- ") ? "" : undefined}>
          <Index each={textPieces(line())}>
            {(piece) => (
              <Show when={piece().href} fallback={plainText(piece().text)}>
                {(href) => <a href={href()}>{piece().text}</a>}
              </Show>
            )}
          </Index>
        </span>
      )}
    </Index>
  </p>
);

/** Each with its line feed, so that copied text keeps it. */
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+/g) ?? [];

const AnswerFailed = (props: {
  problem: ApiProblem | undefined;
  onRetry: (() => void) | undefined;
}) => (
  <div class="chat-failed row">
    <p>
      <Icon name="warning" />{" "}
      <Show when={props.problem} fallback="This answer failed.">
        {(problem) => <Why problem={problem()} />}
      </Show>
    </p>
    <Show when={props.onRetry}>{(retry) => <Button onClick={() => retry()()}>Retry</Button>}</Show>
  </div>
);

/** Questions to start with. */
export const SuggestedQuestions = (props: { onAsk: (question: string) => void }) => (
  <List class="chat-suggestions stack" of={suggestions}>
    {(question) => <Button onClick={() => props.onAsk(question)}>{question}</Button>}
  </List>
);

const suggestions = [
  "Which hosts need attention, and why?",
  "Which hosts stopped forwarding, and what do they have in common?",
  "Which certificates expire within 7 days?",
  "Which hosts drift from their desired config?",
  "Which queues are at risk, and which hosts have the fullest ones?",
  "Who changed what in the last 24 hours?",
];
