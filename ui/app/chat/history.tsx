import { createSignal, For, Match, onMount, Show, Switch } from "solid-js";
import * as v from "valibot";
import { ChatSession, titleLengthMax } from "#proto/chat/session.ts";
import { type ApiClient, type ApiProblem, caughtProblem } from "../api/api-client.ts";
import { createMoment } from "../browser/moment.ts";
import { withQuery } from "../browser/with-query.ts";
import { LoadFailure } from "../design/report-parts.tsx";
import { formatAgo, formatCountOf, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { sessionsPath } from "./conversation.ts";

const SessionPage = v.object({ items: v.array(ChatSession), next_cursor: v.nullable(v.string()) });

/** A change of the list that the rest of the panel follows. */
interface HistoryChanges {
  renamed(id: string, title: string): void;
  deleted(id: string): void;
}

interface HistoryProps {
  api: ApiClient;
  current: string | undefined;
  onOpen: (id: string) => void;
  changes: HistoryChanges;
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
              current={session.id === props.current}
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
      setSessions((all) => all.map((each) => (each.id === id ? { ...each, title } : each)));
      props.changes.renamed(id, title);
    },
    remove: async (id: string) => {
      await props.api.send(`${sessionsPath}/${id}`, { method: "DELETE" });
      setSessions((all) => all.filter((each) => each.id !== id));
      props.changes.deleted(id);
    },
  };
};

/** The line below the list: it loads, it has no more, or it could not be loaded. */
const ListEnd = (props: { list: ReturnType<typeof createSessionList> }) => {
  const { sessions, cursor, loading, problem, load } = props.list;
  return (
    <Switch>
      <Match when={problem()}>
        {(failed) => (
          <LoadFailure
            title={<p>The conversations could not be loaded.</p>}
            problem={failed()}
            onRetry={() => void load()}
          />
        )}
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
        <button class="button" type="button" onClick={() => void load()}>
          Show older
        </button>
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
  const [mode, setMode] = createSignal<"shown" | "renaming" | "deleting">("shown");
  const [problem, setProblem] = createSignal("");
  const title = () => plainText(props.session.title ?? "Untitled conversation");
  const buttons: Partial<Record<"renaming" | "deleting", HTMLButtonElement>> = {};
  const leave = (left: keyof typeof buttons) => {
    setProblem("");
    setMode("shown");
    buttons[left]?.focus();
  };
  const attempt = async (change: () => Promise<void>, done?: () => void) => {
    try {
      await change();
      done?.();
    } catch (failure) {
      setProblem(caughtProblem(failure).message);
    }
  };
  const change = (to: keyof typeof buttons, words: string) => (
    <button
      ref={(element) => {
        buttons[to] = element;
      }}
      class="button button-plain"
      type="button"
      onClick={() => setMode(to)}
    >
      {words}
      <span class="visually-hidden"> {title()}</span>
    </button>
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
            title={props.session.title ?? ""}
            onCancel={() => leave("renaming")}
            onRename={(wanted) =>
              attempt(
                () => props.onRename(wanted),
                () => leave("renaming"),
              )
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
    <button class="button button-plain history-open" type="button" onClick={() => props.onOpen()}>
      <span class="history-title" dir="auto">
        {props.title}
      </span>
      <span class="chat-note" title={times.text(props.session.updated_at)}>
        {formatAgo(props.session.updated_at, props.now)} ·{" "}
        {formatCountOf(props.session.message_count, "message")}
      </span>
    </button>
  );
};

/** Returns the listener of keys that cancels on Escape, which closes nothing else then. */
const onEscape = (cancel: () => void) => (event: KeyboardEvent) => {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  cancel();
};

const RenameForm = (props: {
  title: string;
  onRename: (title: string) => void;
  onCancel: () => void;
}) => {
  let field!: HTMLInputElement;
  onMount(() => field.select());
  return (
    <form
      class="history-change"
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
        maxlength={titleLengthMax}
        required
        autocomplete="off"
      />
      <button class="button button-primary" type="submit">
        Rename
      </button>
      <button class="button" type="button" onClick={() => props.onCancel()}>
        Cancel
      </button>
    </form>
  );
};

const DeleteQuestion = (props: { title: string; onDelete: () => void; onCancel: () => void }) => {
  let cancel!: HTMLButtonElement;
  onMount(() => cancel.focus());
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a flex container in every browser
    <div
      class="history-change"
      role="group"
      aria-label="Delete"
      onKeyDown={onEscape(() => props.onCancel())}
    >
      <p>Delete “{props.title}” with its receipts? This cannot be undone.</p>
      <button class="button button-danger" type="button" onClick={() => props.onDelete()}>
        Delete
      </button>
      <button ref={cancel} class="button" type="button" onClick={() => props.onCancel()}>
        Cancel
      </button>
    </div>
  );
};
