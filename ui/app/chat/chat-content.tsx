import {
  createEffect,
  createMemo,
  createSignal,
  createUniqueId,
  Index,
  Match,
  on,
  Show,
  Switch,
} from "solid-js";
import { ChatStatus, messageBytesMax } from "#proto/chat/session.ts";
import type { ApiClient } from "../api/api-client.ts";
import { Button } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { LoadFailure } from "../design/report-parts.tsx";
import { formatBytes, plainText } from "../format/format.ts";
import { Announcements } from "./announcer.tsx";
import { type Conversation, sessionsPath } from "./conversation.ts";
import type { Conversations, OpenConversation } from "./create-conversations.ts";
import { History } from "./history.tsx";
import { AnswerMessage, modelText, QuestionMessage, SuggestedQuestions } from "./message.tsx";

const countFromBytes = messageBytesMax - 4096;

interface ComposerProps {
  conversation: Conversation;
  /** Receives the field, for the focus. */
  ref: (field: HTMLTextAreaElement) => void;
  onAsk: (question: string) => void;
}

/** The field of the next question, with Send, or Stop while an answer arrives. Enter sends, Shift and Enter starts a line. */
const Composer = (props: ComposerProps) => {
  const composer = createComposer(props);
  return (
    <form
      class="composer stack"
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
          <Button ref={composer.setStop} onClick={composer.stop}>
            Stop
          </Button>
        </Show>
      </div>
    </form>
  );
};

const createComposer = (props: ComposerProps) => {
  let field: HTMLTextAreaElement | undefined;
  let stop: HTMLButtonElement | undefined;
  const answering = () => props.conversation.answering();
  const bytes = () => new TextEncoder().encode(props.conversation.draft().trim()).length;
  const isOver = () => bytes() > messageBytesMax;
  const canSend = () => !answering() && bytes() > 0 && !isOver();
  const focus = () => field?.focus();
  // Stop disappears with the end of the answer; its focus must not.
  createEffect(
    on(answering, (now) => now || stop !== document.activeElement || focus(), { defer: true }),
  );
  return {
    id: createUniqueId(),
    answering,
    bytes,
    isOver,
    canSend,
    setField: (element: HTMLTextAreaElement) => {
      field = element;
      props.ref(element);
    },
    setStop: (element: HTMLButtonElement) => {
      stop = element;
    },
    stop: () => {
      props.conversation.stop();
      focus();
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

interface ContentProps {
  api: ApiClient;
  conversations: Conversations;
  onShow: (id: string) => void;
  onClose: () => void;
  fieldRef: (field: HTMLTextAreaElement) => void;
}

/** Nearer than this to the end counts as the end. */
const endPixels = 24;

/** Keeps a scrolling element at its end while the reader is there. It ends with its element. */
const createStickyScroll = () => {
  const [atEnd, setAtEnd] = createSignal(true);
  let scrolled: HTMLElement | undefined;
  const toEnd = () => scrolled?.scrollTo({ top: scrolled.scrollHeight, behavior: "instant" });
  const observer = new ResizeObserver(() => atEnd() && toEnd());
  return {
    /** Receives the element; its only child is the content that grows. */
    ref(element: HTMLElement) {
      observer.disconnect();
      scrolled = element;
      setAtEnd(true);
      queueMicrotask(() => {
        observer.observe(element);
        if (element.firstElementChild) observer.observe(element.firstElementChild);
      });
      let before = 0;
      element.addEventListener("scroll", () => {
        const { scrollTop, scrollHeight, clientHeight } = element;
        if (scrollHeight - scrollTop - clientHeight < endPixels) setAtEnd(true);
        // Only the reader scrolls back. The event of a scroll to the end may arrive after the content has grown again.
        else if (scrollTop < before) setAtEnd(false);
        before = scrollTop;
      });
    },
    /** Whether the end is in view. */
    atEnd,
    /** Scrolls to the end and stays there. */
    stick() {
      setAtEnd(true);
      toEnd();
    },
  };
};

/** The panel's content: its head, the conversation or the list of conversations, and the field of the next question. */
export const ChatContent = (props: ContentProps) => {
  const [listing, setListing] = createSignal(false);
  const conversation = () => props.conversations.current();
  const scroll = createStickyScroll();
  let field: HTMLTextAreaElement | undefined;
  const show = (id: string) => {
    setListing(false);
    props.onShow(id);
    field?.focus();
  };
  const ask = (question: string) => {
    setListing(false);
    scroll.stick();
    void conversation().ask(question);
  };
  createEffect(on(conversation, () => scroll.stick()));
  return (
    <>
      <Head
        {...props}
        listing={listing()}
        onList={() => setListing(!listing())}
        onNew={() => show("new")}
      />
      <Show
        when={!listing()}
        fallback={
          <div class="chat-scroll">
            <History {...props} onOpen={show} onDeleted={() => props.onShow("new")} />
          </div>
        }
      >
        <section class="chat-scroll" ref={scroll.ref} tabindex="0" aria-label="Conversation">
          <Messages conversation={conversation()} onAsk={ask} />
        </section>
      </Show>
      <div class="chat-foot stack gap-1">
        <Show when={!scroll.atEnd() && !listing()}>
          <Button class="chat-jump" onClick={scroll.stick}>
            <Icon name="descending" /> Latest
          </Button>
        </Show>
        <Composer
          conversation={conversation()}
          onAsk={ask}
          ref={(element) => {
            field = element;
            props.fieldRef(element);
          }}
        />
        <ModelStatus api={props.api} />
      </div>
      <Announcements announcements={conversation().announcer.announcements()} />
    </>
  );
};

/** The title of the conversation, and what can be done with it. */
const Head = (
  props: ContentProps & { listing: boolean; onList: () => void; onNew: () => void },
) => {
  const conversation = () => props.conversations.current();
  return (
    <div class="chat-head">
      <div class="chat-title">
        <h2 id="chat-title">Ask</h2>
        <p class="chat-note" dir="auto">
          {plainText(
            conversation().title() ??
              (conversation().id() === undefined ? "New conversation" : "Conversation"),
          )}
        </p>
      </div>
      <Button class="button-plain" aria-pressed={props.listing} onClick={() => props.onList()}>
        History
      </Button>
      <Button class="button-plain" onClick={() => props.onNew()}>
        New
      </Button>
      <Show when={conversation().id()}>
        {(id) => (
          <a
            class="button button-plain button-icon"
            href={`${sessionsPath}/${id()}/receipts`}
            download={`chat-${id()}.json`}
            rel="external"
            title={downloadWords}
          >
            <Icon name="export" />
            <span class="visually-hidden">{downloadWords}</span>
          </a>
        )}
      </Show>
      <Button class="button-plain button-icon" aria-label="Close" onClick={() => props.onClose()}>
        <Icon name="close" />
      </Button>
    </div>
  );
};

const downloadWords = "Download the conversation with its receipts";

/** The questions and answers of a conversation, or why there are none. */
const Messages = (props: { conversation: OpenConversation; onAsk: (question: string) => void }) => {
  const lastQuestion = createMemo(() =>
    props.conversation.messages().findLastIndex(({ role }) => role === "user"),
  );
  return (
    <div class="chat-messages stack gap-4">
      <Beginning {...props} />
      <Index each={props.conversation.messages()}>
        {(message, index) => (
          <Show
            when={message().role === "assistant"}
            fallback={<QuestionMessage message={message()} />}
          >
            <AnswerMessage
              message={message()}
              receiptStatus={props.conversation.receiptStatusOf(message())}
              onRetry={
                index > lastQuestion() && !props.conversation.answering()
                  ? () => props.conversation.retry()
                  : undefined
              }
            />
          </Show>
        )}
      </Index>
    </div>
  );
};

/** The line before the messages: they load, they could not be loaded, or how to begin. */
const Beginning = (props: {
  conversation: OpenConversation;
  onAsk: (question: string) => void;
}) => (
  <Switch>
    <Match when={props.conversation.problem()?.status === 404}>
      <p role="alert">No conversation of yours has this address. It may have been deleted.</p>
    </Match>
    <Match when={props.conversation.problem()}>
      <LoadFailure
        what="conversation"
        problem={props.conversation.problem()}
        onRetry={() => void props.conversation.load()}
      />
    </Match>
    <Match when={!props.conversation.loaded()}>
      <p class="chat-note page-loading" role="status">
        Loading
      </p>
    </Match>
    <Match when={props.conversation.messages().length === 0}>
      <p>
        Ask about hosts, certificates, configs, queues and the audit log. Each answer shows its
        queries and has a signed receipt. A model can be wrong: check what you act on.
      </p>
      <SuggestedQuestions onAsk={props.onAsk} />
    </Match>
  </Switch>
);

/** Which model answers, and what it cannot do; without an answer of core the panel works all the same. */
const ModelStatus = (props: { api: ApiClient }) => {
  const [status, setStatus] = createSignal<ChatStatus>();
  props.api.get("/api/core/chat/status", ChatStatus).then(setStatus, () => undefined);
  return (
    <p class="chat-note chat-status">
      <Show when={status()}>
        {(known) => (
          <>
            {modelText(known())}
            {known().receipts.ephemeral ? " · receipts have an ephemeral key" : ""}
            <Show when={!known().sql_tools.offered}>
              {" "}
              · cannot query: {plainText(known().sql_tools.reason ?? "the SQL tools are off")}
            </Show>
          </>
        )}
      </Show>
    </p>
  );
};
