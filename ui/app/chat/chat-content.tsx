import { createEffect, createMemo, createSignal, Index, type JSX, on, Show } from "solid-js";
import { ChatStatus } from "../../../proto/chat/session.ts";
import type { ApiClient } from "../api/api-client.ts";
import { Icon } from "../design/parts.tsx";
import { LoadFailure } from "../design/report-parts.tsx";
import { plainText } from "../format/format.ts";
import { Announcements } from "./announcer.tsx";
import { Composer } from "./composer.tsx";
import { sessionsPath } from "./conversation.ts";
import type { Conversations } from "./create-conversations.ts";
import { createStickyScroll } from "./create-sticky-scroll.ts";
import { History } from "./history.tsx";
import { AnswerMessage, QuestionMessage, SuggestedQuestions } from "./message.tsx";

/** The panel's content: its head, the conversation or the list of conversations, and the field of the next question. */
export const ChatContent = (props: {
  api: ApiClient;
  title: JSX.Element;
  conversations: Conversations;
  onShow: (id: string) => void;
  onClose: () => void;
  fieldRef: (field: HTMLTextAreaElement) => void;
}) => {
  const [listing, setListing] = createSignal(false);
  const [status, setStatus] = createSignal<ChatStatus>();
  // Without it the panel works all the same.
  props.api.get("/api/core/chat/status", ChatStatus).then(setStatus, () => undefined);
  const conversation = () => props.conversations.current();
  const scroll = createStickyScroll();
  let field: HTMLTextAreaElement | undefined;
  const show = (id: string) => {
    setListing(false);
    props.onShow(id);
    field?.focus();
  };
  const ask = (question: string) => {
    scroll.stick();
    void conversation().ask(question);
  };
  const lastQuestion = createMemo(() =>
    conversation()
      .messages()
      .findLastIndex(({ role }) => role === "user"),
  );
  createEffect(on(conversation, () => scroll.stick()));

  return (
    <>
      <header class="chat-head">
        <div class="chat-title">
          {props.title}
          <p class="chat-note" dir="auto">
            {plainText(
              conversation().title() ??
                (conversation().id() === undefined ? "New conversation" : "Conversation"),
            )}
          </p>
        </div>
        <button
          class="button button-plain"
          type="button"
          aria-pressed={listing()}
          onClick={() => setListing(!listing())}
        >
          History
        </button>
        <button class="button button-plain" type="button" onClick={() => show("new")}>
          New
        </button>
        <Show when={conversation().id()}>
          {(id) => (
            <a
              class="button button-plain button-icon"
              href={`${sessionsPath}/${id()}/receipts`}
              download={`chat-${id()}.json`}
              rel="external"
              title="Download the conversation with its receipts"
            >
              <Icon name="export" />
              <span class="visually-hidden">Download the conversation with its receipts</span>
            </a>
          )}
        </Show>
        <button
          class="button button-plain button-icon"
          type="button"
          aria-label="Close"
          onClick={() => props.onClose()}
        >
          <Icon name="close" />
        </button>
      </header>
      <Show
        when={!listing()}
        fallback={
          <div class="chat-scroll">
            <History
              api={props.api}
              current={conversation().id()}
              onOpen={show}
              changes={{
                renamed: props.conversations.renamed,
                deleted: (id) => {
                  const wasCurrent = conversation().id() === id;
                  props.conversations.deleted(id);
                  if (wasCurrent) props.onShow("new");
                },
              }}
            />
          </div>
        }
      >
        <section class="chat-scroll" ref={scroll.ref} tabindex="0" aria-label="Conversation">
          <div class="chat-messages">
            <Show when={conversation().problem()}>
              {(problem) => (
                <Show
                  when={problem().status !== 404}
                  fallback={
                    <p role="alert">
                      No conversation of yours has this address. It may have been deleted.
                    </p>
                  }
                >
                  <LoadFailure
                    title={<p>The conversation could not be loaded.</p>}
                    problem={problem()}
                    onRetry={() => void conversation().load()}
                  />
                </Show>
              )}
            </Show>
            <Show when={!conversation().loaded() && !conversation().problem()}>
              <p class="chat-note chat-loading" role="status">
                Loading
              </p>
            </Show>
            <Show when={conversation().loaded() && conversation().messages().length === 0}>
              <p>
                Ask about hosts, certificates, configs, queues and the audit log. Each answer shows
                its queries and has a signed receipt. A model can be wrong: check what you act on.
              </p>
              <SuggestedQuestions onAsk={ask} />
            </Show>
            <Index each={conversation().messages()}>
              {(message, index) => (
                <Show
                  when={message().role === "assistant"}
                  fallback={<QuestionMessage message={message()} />}
                >
                  <AnswerMessage
                    message={message()}
                    receiptStatus={conversation().receiptStatusOf(message())}
                    onRetry={
                      index > lastQuestion() && !conversation().answering()
                        ? () => conversation().retry()
                        : undefined
                    }
                  />
                </Show>
              )}
            </Index>
          </div>
        </section>
      </Show>
      <div class="chat-foot">
        <Show when={!scroll.atEnd() && !listing()}>
          <button class="button chat-jump" type="button" onClick={scroll.stick}>
            <Icon name="descending" /> Latest
          </button>
        </Show>
        <Composer
          conversation={conversation()}
          onAsk={(question) => {
            setListing(false);
            ask(question);
          }}
          ref={(element) => {
            field = element;
            props.fieldRef(element);
          }}
        />
        <p class="chat-note chat-status">
          <Show when={status()}>
            {(known) => (
              <>
                {known().provider === "mock"
                  ? "Built-in mock, not a language model"
                  : plainText(`${known().model} through ${known().provider}`)}
                {known().receipts.ephemeral ? " · receipts have an ephemeral key" : ""}
                <Show when={!known().sql_tools.offered}>
                  {" "}
                  · cannot query: {plainText(known().sql_tools.reason ?? "the SQL tools are off")}
                </Show>
              </>
            )}
          </Show>
        </p>
      </div>
      <Announcements announcements={conversation().announcer.announcements()} />
    </>
  );
};
