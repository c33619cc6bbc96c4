import { createSignal, For, Match, onMount, Show, Switch } from "solid-js";
import * as v from "valibot";
import { ChatSession, titleLengthMax } from "../../../proto/chat/session.ts";
import { type ApiClient, ApiProblem } from "../api/api-client.ts";
import { createMoment } from "../browser/moment.ts";
import { LoadFailure } from "../design/report-parts.tsx";
import { formatAgo, formatCountOf, formatTimestamp, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { sessionsPath } from "./conversation.ts";

const SessionPage = v.object({ items: v.array(ChatSession), next_cursor: v.nullable(v.string()) });

/** A change of the list that the rest of the panel follows. */
export interface HistoryChanges {
  renamed(id: string, title: string): void;
  deleted(id: string): void;
}

/** The operator's conversations, newest first: open, rename, delete. */
export const History = (props: {
  api: ApiClient;
  current: string | undefined;
  onOpen: (id: string) => void;
  changes: HistoryChanges;
}) => {
  const now = createMoment();
  const [sessions, setSessions] = createSignal<readonly ChatSession[]>([]);
  const [cursor, setCursor] = createSignal<string | null>(null);
  const [loading, setLoading] = createSignal(true);
  const [problem, setProblem] = createSignal<ApiProblem>();
  let heading!: HTMLHeadingElement;

  const load = async (from: string | null) => {
    setLoading(true);
    setProblem(undefined);
    try {
      const query = new URLSearchParams({
        limit: "50",
        ...(from === null ? {} : { cursor: from }),
      });
      const page = await props.api.get(`${sessionsPath}?${query}`, SessionPage);
      setSessions((before) => (from === null ? page.items : [...before, ...page.items]));
      setCursor(page.next_cursor);
    } catch (failure) {
      if (!(failure instanceof ApiProblem)) throw failure;
      setProblem(failure);
    }
    setLoading(false);
  };
  onMount(() => {
    heading.focus();
    void load(null);
  });
  const rename = async (id: string, title: string) => {
    await props.api.send(`${sessionsPath}/${id}`, { method: "PUT", body: { title } });
    setSessions((all) => all.map((each) => (each.id === id ? { ...each, title } : each)));
    props.changes.renamed(id, title);
  };
  const remove = async (id: string) => {
    await props.api.send(`${sessionsPath}/${id}`, { method: "DELETE" });
    setSessions((all) => all.filter((each) => each.id !== id));
    props.changes.deleted(id);
    heading.focus();
  };

  return (
    <section class="chat-history" aria-labelledby="chat-history">
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
        <For each={sessions()}>
          {(session) => (
            <HistoryRow
              session={session}
              now={props.api.timeAt(now())}
              current={session.id === props.current}
              onOpen={() => props.onOpen(session.id)}
              onRename={(title) => rename(session.id, title)}
              onDelete={() => remove(session.id)}
            />
          )}
        </For>
      </ul>
      <Switch>
        <Match when={problem()}>
          {(failed) => (
            <LoadFailure
              title={<p>The conversations could not be loaded.</p>}
              problem={failed()}
              onRetry={() => void load(cursor())}
            />
          )}
        </Match>
        <Match when={loading()}>
          <p class="chat-note chat-loading" role="status">
            Loading
          </p>
        </Match>
        <Match when={sessions().length === 0}>
          <p class="chat-note">None yet. Ask a question to start one.</p>
        </Match>
        <Match when={cursor() !== null}>
          <button class="button" type="button" onClick={() => void load(cursor())}>
            Show older
          </button>
        </Match>
      </Switch>
    </section>
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
  const { times } = usePageContext();
  const [mode, setMode] = createSignal<"shown" | "renaming" | "deleting">("shown");
  const [problem, setProblem] = createSignal("");
  const title = () => plainText(props.session.title ?? "Untitled conversation");
  let renameButton: HTMLButtonElement | undefined;
  let deleteButton: HTMLButtonElement | undefined;
  const leave = (button: () => HTMLButtonElement | undefined) => {
    setProblem("");
    setMode("shown");
    button()?.focus();
  };
  const attempt = async (change: () => Promise<void>, done: () => void) => {
    try {
      await change();
      done();
    } catch (failure) {
      if (!(failure instanceof ApiProblem)) throw failure;
      setProblem(failure.message);
    }
  };
  const cancelOnEscape =
    (button: () => HTMLButtonElement | undefined) => (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      leave(button);
    };
  return (
    <li aria-current={props.current ? "true" : undefined}>
      <Switch>
        <Match when={mode() === "shown"}>
          <button
            class="button button-plain history-open"
            type="button"
            onClick={() => props.onOpen()}
          >
            <span class="history-title" dir="auto">
              {title()}
            </span>
            <span class="chat-note" title={formatTimestamp(props.session.updated_at, times.zone())}>
              {formatAgo(props.session.updated_at, props.now)} ·{" "}
              {formatCountOf(props.session.message_count, "message")}
            </span>
          </button>
          <button
            ref={(element) => {
              renameButton = element;
            }}
            class="button button-plain"
            type="button"
            onClick={() => setMode("renaming")}
          >
            Rename<span class="visually-hidden"> {title()}</span>
          </button>
          <button
            ref={(element) => {
              deleteButton = element;
            }}
            class="button button-plain"
            type="button"
            onClick={() => setMode("deleting")}
          >
            Delete<span class="visually-hidden"> {title()}</span>
          </button>
        </Match>
        <Match when={mode() === "renaming"}>
          <RenameForm
            title={props.session.title ?? ""}
            onEscape={cancelOnEscape(() => renameButton)}
            onCancel={() => leave(() => renameButton)}
            onRename={(wanted) =>
              attempt(
                () => props.onRename(wanted),
                () => leave(() => renameButton),
              )
            }
          />
        </Match>
        <Match when={mode() === "deleting"}>
          <DeleteQuestion
            title={title()}
            onEscape={cancelOnEscape(() => deleteButton)}
            onCancel={() => leave(() => deleteButton)}
            onDelete={() => attempt(props.onDelete, () => undefined)}
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

const RenameForm = (props: {
  title: string;
  onRename: (title: string) => void;
  onCancel: () => void;
  onEscape: (event: KeyboardEvent) => void;
}) => {
  let field!: HTMLInputElement;
  onMount(() => field.select());
  return (
    <form
      class="history-change"
      onKeyDown={(event) => props.onEscape(event)}
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

const DeleteQuestion = (props: {
  title: string;
  onDelete: () => void;
  onCancel: () => void;
  onEscape: (event: KeyboardEvent) => void;
}) => {
  let cancel!: HTMLButtonElement;
  onMount(() => cancel.focus());
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a flex container in every browser
    <div
      class="history-change"
      role="group"
      aria-label="Delete"
      onKeyDown={(event) => props.onEscape(event)}
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
