import { createSignal, For, Match, onMount, Show, Switch } from "solid-js";
import * as v from "valibot";
import { ChatSession, titleLengthMax } from "#proto/chat/session.ts";
import { type ApiClient, type ApiProblem, caughtProblem } from "../api/api-client.ts";
import { keepText, readKeptText } from "../browser/kept-text.ts";
import { createMoment } from "../browser/moment.ts";
import { withQuery } from "../browser/with-query.ts";
import { Button } from "../design/buttons.tsx";
import { LoadFailure } from "../design/report-parts.tsx";
import { formatAgo, formatCountOf, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { sessionsPath } from "./conversation.ts";
import type { Conversations } from "./create-conversations.ts";

const SessionPage = v.object({ items: v.array(ChatSession), next_cursor: v.nullable(v.string()) });

interface HistoryProps {
  api: ApiClient;
  conversations: Conversations;
  onOpen: (id: string) => void;
  /** The conversation that the panel showed is deleted. */
  onDeleted: () => void;
}

/** The operator's conversations, newest first: open, rename, delete. */
export const History = (props: HistoryProps) => {
  const now = createMoment();
  const list = createSessionList(props);
  let heading!: HTMLHeadingElement;
  onMount(() => {
    heading.focus();
    void list.load();
  });
  return (
    <section class="chat-history stack gap-3" aria-labelledby="chat-history">
      <h3
        ref={(element) => {
          heading = element;
        }}
        id="chat-history"
        tabindex="-1"
      >
        Your conversations
      </h3>
      <ul>
        <For each={list.sessions()}>
          {(session) => (
            <HistoryRow
              session={session}
              now={props.api.timeAt(now())}
              current={session.id === props.conversations.current().id()}
              onOpen={() => props.onOpen(session.id)}
              onRename={(title) => list.rename(session.id, title)}
              onDelete={async () => {
                await list.remove(session.id);
                heading.focus();
              }}
            />
          )}
        </For>
      </ul>
      <ListEnd list={list} />
    </section>
  );
};

const createSessionList = (props: HistoryProps) => {
  const [sessions, setSessions] = createSignal<readonly ChatSession[]>([]);
  const [cursor, setCursor] = createSignal<string | null>(null);
  const [loading, setLoading] = createSignal(true);
  const [problem, setProblem] = createSignal<ApiProblem>();
  return {
    sessions,
    cursor,
    loading,
    problem,
    /** Adds the next page. */
    load: async () => {
      setLoading(true);
      setProblem(undefined);
      try {
        const path = withQuery(sessionsPath, { limit: 50, cursor: cursor() });
        const page = await props.api.get(path, SessionPage);
        setSessions((before) => [...before, ...page.items]);
        setCursor(page.next_cursor);
      } catch (failure) {
        setProblem(caughtProblem(failure));
      }
      setLoading(false);
    },
    rename: async (id: string, title: string) => {
      await props.api.send(`${sessionsPath}/${id}`, { method: "PUT", body: { title } });
      keepText("title", id, "");
      setSessions((all) => all.map((each) => (each.id === id ? { ...each, title } : each)));
      props.conversations.renamed(id, title);
    },
    remove: async (id: string) => {
      await props.api.send(`${sessionsPath}/${id}`, { method: "DELETE" });
      setSessions((all) => all.filter((each) => each.id !== id));
      const wasShown = props.conversations.current().id() === id;
      props.conversations.deleted(id);
      if (wasShown) props.onDeleted();
    },
  };
};

/** The line below the list: it loads, it has no more, or it could not be loaded. */
const ListEnd = (props: { list: ReturnType<typeof createSessionList> }) => {
  const { sessions, cursor, loading, problem, load } = props.list;
  return (
    <Switch>
      <Match when={problem()}>
        <LoadFailure what="conversations" problem={problem()} onRetry={() => void load()} />
      </Match>
      <Match when={loading()}>
        <p class="chat-note page-loading" role="status">
          Loading
        </p>
      </Match>
      <Match when={sessions().length === 0}>
        <p class="chat-note">None yet. Ask a question to start one.</p>
      </Match>
      <Match when={cursor() !== null}>
        <Button onClick={() => void load()}>Show older</Button>
      </Match>
    </Switch>
  );
};

/** A conversation in the list. Renaming and deleting replace its row, so that nothing else moves. */
const HistoryRow = (props: {
  session: ChatSession;
  now: number;
  current: boolean;
  onOpen: () => void;
  onRename: (title: string) => Promise<void>;
  onDelete: () => Promise<void>;
}) => {
  const { id } = props.session;
  const isTyped = readKeptText("title", id) !== undefined;
  const [mode, setMode] = createSignal<"shown" | "renaming" | "deleting">(
    isTyped ? "renaming" : "shown",
  );
  const [problem, setProblem] = createSignal("");
  const title = () => plainText(props.session.title ?? "Untitled conversation");
  const buttons: Partial<Record<"renaming" | "deleting", HTMLButtonElement>> = {};
  const leave = (left: keyof typeof buttons) => {
    keepText("title", id, "");
    setProblem("");
    setMode("shown");
    buttons[left]?.focus();
  };
  const attempt = async (change: () => Promise<void>) => {
    try {
      await change();
    } catch (failure) {
      setProblem(caughtProblem(failure).message);
    }
  };
  const change = (to: keyof typeof buttons, words: string) => (
    <Button
      ref={(element) => {
        buttons[to] = element;
      }}
      class="button-plain"
      onClick={() => setMode(to)}
    >
      {words}
      <span class="visually-hidden"> {title()}</span>
    </Button>
  );
  return (
    <li aria-current={props.current ? "true" : undefined}>
      <Switch>
        <Match when={mode() === "shown"}>
          <OpenButton {...props} title={title()} />
          {change("renaming", "Rename")}
          {change("deleting", "Delete")}
        </Match>
        <Match when={mode() === "renaming"}>
          <RenameForm
            title={readKeptText("title", id) ?? props.session.title ?? ""}
            onType={(typed) => keepText("title", id, typed)}
            onCancel={() => leave("renaming")}
            onRename={(wanted) =>
              attempt(async () => {
                await props.onRename(wanted);
                leave("renaming");
              })
            }
          />
        </Match>
        <Match when={mode() === "deleting"}>
          <DeleteQuestion
            title={title()}
            onCancel={() => leave("deleting")}
            onDelete={() => attempt(props.onDelete)}
          />
        </Match>
      </Switch>
      <Show when={problem()}>
        {(message) => (
          <p class="history-problem" role="alert">
            {message()}. Try again.
          </p>
        )}
      </Show>
    </li>
  );
};

const OpenButton = (props: {
  session: ChatSession;
  title: string;
  now: number;
  onOpen: () => void;
}) => {
  const { times } = usePageContext();
  return (
    <Button class="button-plain history-open" onClick={() => props.onOpen()}>
      <span class="history-title" dir="auto">
        {props.title}
      </span>
      <span class="chat-note" title={times.text(props.session.updated_at)}>
        {formatAgo(props.session.updated_at, props.now)} ·{" "}
        {formatCountOf(props.session.message_count, "message")}
      </span>
    </Button>
  );
};

/** Returns the listener of keys that cancels on Escape, which closes nothing else then. */
const onEscape = (cancel: () => void) => (event: KeyboardEvent) => {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  cancel();
};

/** The form of a new title, which a reload keeps. */
const RenameForm = (props: {
  title: string;
  onType: (title: string) => void;
  onRename: (title: string) => void;
  onCancel: () => void;
}) => {
  let field!: HTMLInputElement;
  onMount(() => field.select());
  return (
    <form
      class="history-change row"
      onKeyDown={onEscape(() => props.onCancel())}
      onSubmit={(event) => {
        event.preventDefault();
        if (field.value.trim() !== "") props.onRename(field.value.trim());
      }}
    >
      <input
        ref={field}
        class="input"
        aria-label="Title"
        value={props.title}
        onInput={() => props.onType(field.value)}
        maxlength={titleLengthMax}
        required
        autocomplete="off"
      />
      <button class="button button-primary" type="submit">
        Rename
      </button>
      <Button onClick={() => props.onCancel()}>Cancel</Button>
    </form>
  );
};

const DeleteQuestion = (props: { title: string; onDelete: () => void; onCancel: () => void }) => {
  let cancel!: HTMLButtonElement;
  onMount(() => cancel.focus());
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a flex container in every browser
    <div
      class="history-change row"
      role="group"
      aria-label="Delete"
      onKeyDown={onEscape(() => props.onCancel())}
    >
      <p>Delete “{props.title}” with its receipts? This cannot be undone.</p>
      <Button class="button-danger" onClick={() => props.onDelete()}>
        Delete
      </Button>
      <Button ref={cancel} onClick={() => props.onCancel()}>
        Cancel
      </Button>
    </div>
  );
};
