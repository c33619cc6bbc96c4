import { createEffect, createUniqueId, on, Show } from "solid-js";
import { messageBytesMax } from "../../../proto/chat/session.ts";
import { formatBytes } from "../format/format.ts";
import type { Conversation } from "./conversation.ts";

const countFromBytes = messageBytesMax - 4096;

/** The field of the next question, with Send, or Stop while an answer arrives. Enter sends, Shift and Enter starts a line. */
export const Composer = (props: {
  conversation: Conversation;
  /** Receives the field, for the focus. */
  ref: (field: HTMLTextAreaElement) => void;
  onAsk: (question: string) => void;
}) => {
  const id = createUniqueId();
  let field!: HTMLTextAreaElement;
  let stopButton: HTMLButtonElement | undefined;
  const draft = () => props.conversation.draft();
  const answering = () => props.conversation.answering();
  const bytes = () => new TextEncoder().encode(draft().trim()).length;
  const canSend = () => !answering() && bytes() > 0 && bytes() <= messageBytesMax;
  const send = () => {
    if (!canSend()) return;
    const question = draft().trim();
    props.conversation.setDraft("");
    field.focus();
    props.onAsk(question);
  };
  // Stop disappears with the end of the answer; its focus must not.
  createEffect(
    on(answering, (now) => now || stopButton !== document.activeElement || field.focus(), {
      defer: true,
    }),
  );
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label class="visually-hidden" for={id}>
        Question
      </label>
      <textarea
        ref={(element) => {
          field = element;
          props.ref(element);
        }}
        id={id}
        class="input"
        rows="2"
        dir="auto"
        placeholder="Ask about the fleet"
        aria-invalid={bytes() > messageBytesMax}
        aria-describedby={`${id}-count`}
        value={draft()}
        onInput={(event) => props.conversation.setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="composer-end">
        <p
          id={`${id}-count`}
          class="chat-note"
          classList={{ "composer-over": bytes() > messageBytesMax }}
        >
          <Show
            when={bytes() > countFromBytes}
            fallback={
              <Show when={answering()} fallback="Enter sends, Shift+Enter starts a line.">
                <span class="chat-writing" aria-hidden="true" /> Answering
              </Show>
            }
          >
            {formatBytes(bytes())} of {formatBytes(messageBytesMax)}
            {bytes() > messageBytesMax ? ": shorten the question." : ""}
          </Show>
        </p>
        <Show
          when={answering()}
          fallback={
            <button
              class="button"
              classList={{ "button-primary": canSend() }}
              type="submit"
              aria-disabled={!canSend()}
            >
              Send
            </button>
          }
        >
          <button
            ref={(element) => {
              stopButton = element;
            }}
            class="button"
            type="button"
            onClick={() => {
              props.conversation.stop();
              field.focus();
            }}
          >
            Stop
          </button>
        </Show>
      </div>
    </form>
  );
};
