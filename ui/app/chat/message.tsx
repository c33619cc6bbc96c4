import { For, Index, Match, Show, Switch } from "solid-js";
import { messageText } from "../../../proto/chat/session.ts";
import type { ApiProblem } from "../api/api-client.ts";
import { Icon } from "../design/icon.tsx";
import { plainText } from "../format/format.ts";
import { type ShownPart, shownParts } from "./answer-parts.ts";
import { textPieces } from "./answer-text.ts";
import type { ReceiptStatus } from "./check-answers.ts";
import type { ShownMessage } from "./conversation.ts";
import { ReceiptBadge } from "./receipt-badge.tsx";
import { ToolCall } from "./tool-call.tsx";

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
    <div class="chat-answer">
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
  <div class="chat-failed">
    <p>
      <Icon name="warning" />{" "}
      <Show when={props.problem} fallback="This answer failed.">
        {(problem) => (
          <>
            {plainText(problem().message)}.
            <Show when={problem().requestId}>
              {(id) => (
                <>
                  {" "}
                  Request <code>{plainText(id())}</code>
                </>
              )}
            </Show>
          </>
        )}
      </Show>
    </p>
    <Show when={props.onRetry}>
      {(retry) => (
        <button class="button" type="button" onClick={() => retry()()}>
          Retry
        </button>
      )}
    </Show>
  </div>
);

/** Questions to start with. */
export const SuggestedQuestions = (props: { onAsk: (question: string) => void }) => (
  <ul class="chat-suggestions">
    <For each={suggestions}>
      {(question) => (
        <li>
          <button class="button" type="button" onClick={() => props.onAsk(question)}>
            {question}
          </button>
        </li>
      )}
    </For>
  </ul>
);

const suggestions = [
  "Which hosts need attention, and why?",
  "Which hosts stopped forwarding, and what do they have in common?",
  "Which certificates expire within 7 days?",
  "Which hosts drift from their desired config?",
  "Which queues are at risk, and which hosts have the fullest ones?",
  "Who changed what in the last 24 hours?",
];
