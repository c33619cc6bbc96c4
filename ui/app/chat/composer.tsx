import { createEffect, createUniqueId, on, Show } from "solid-js";
import { messageBytesMax } from "../../../proto/chat/session.ts";
import { formatBytes } from "../format/format.ts";
import type { Conversation } from "./conversation.ts";

const countFromBytes = messageBytesMax - 4096;

interface ComposerProps {
  conversation: Conversation;
  /** Receives the field, for the focus. */
  ref: (field: HTMLTextAreaElement) => void;
  onAsk: (question: string) => void;
}

/** The field of the next question, with Send, or Stop while an answer arrives. Enter sends, Shift and Enter starts a line. */
export const Composer = (props: ComposerProps) => {
  const composer = createComposer(props);
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        composer.send();
      }}
    >
      <label class="visually-hidden" for={composer.id}>
        Question
      </label>
      <QuestionField composer={composer} conversation={props.conversation} />
      <div class="composer-end">
        <p
          id={`${composer.id}-count`}
          class="chat-note"
          classList={{ "composer-over": composer.isOver() }}
        >
          <ComposerNote bytes={composer.bytes()} answering={composer.answering()} />
        </p>
        <Show
          when={composer.answering()}
          fallback={
            <button
              class="button"
              classList={{ "button-primary": composer.canSend() }}
              type="submit"
              aria-disabled={!composer.canSend()}
            >
              Send
            </button>
          }
        >
          <button
            ref={(element) => {
              composer.controls.stop = element;
            }}
            class="button"
            type="button"
            onClick={() => {
              props.conversation.stop();
              composer.focus();
            }}
          >
            Stop
          </button>
        </Show>
      </div>
    </form>
  );
};

const createComposer = (props: ComposerProps) => {
  const controls: { field?: HTMLTextAreaElement; stop?: HTMLButtonElement } = {};
  const answering = () => props.conversation.answering();
  const bytes = () => new TextEncoder().encode(props.conversation.draft().trim()).length;
  const isOver = () => bytes() > messageBytesMax;
  const canSend = () => !answering() && bytes() > 0 && !isOver();
  const focus = () => controls.field?.focus();
  // Stop disappears with the end of the answer; its focus must not.
  createEffect(
    on(answering, (now) => now || controls.stop !== document.activeElement || focus(), {
      defer: true,
    }),
  );
  return {
    id: createUniqueId(),
    controls,
    answering,
    bytes,
    isOver,
    canSend,
    focus,
    setField: (field: HTMLTextAreaElement) => {
      controls.field = field;
      props.ref(field);
    },
    send: () => {
      if (!canSend()) return;
      const question = props.conversation.draft().trim();
      props.conversation.setDraft("");
      focus();
      props.onAsk(question);
    },
  };
};

const QuestionField = (props: {
  composer: ReturnType<typeof createComposer>;
  conversation: Conversation;
}) => (
  <textarea
    ref={props.composer.setField}
    id={props.composer.id}
    class="input"
    rows="2"
    dir="auto"
    placeholder="Ask about the fleet"
    aria-invalid={props.composer.isOver()}
    aria-describedby={`${props.composer.id}-count`}
    value={props.conversation.draft()}
    onInput={(event) => props.conversation.setDraft(event.currentTarget.value)}
    onKeyDown={(event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      props.composer.send();
    }}
  />
);

const ComposerNote = (props: { bytes: number; answering: boolean }) => (
  <Show
    when={props.bytes > countFromBytes}
    fallback={
      <Show when={props.answering} fallback="Enter sends, Shift+Enter starts a line.">
        <span class="chat-writing" aria-hidden="true" /> Answering
      </Show>
    }
  >
    {formatBytes(props.bytes)} of {formatBytes(messageBytesMax)}
    {props.bytes > messageBytesMax ? ": shorten the question." : ""}
  </Show>
);
