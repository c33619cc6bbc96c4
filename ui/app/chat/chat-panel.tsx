import * as Dialog from "@kobalte/core/dialog";
import { useBeforeLeave, useLocation, useNavigate } from "@solidjs/router";
import { createEffect, createMemo, type JSX, Show } from "solid-js";
import { Portal } from "solid-js/web";
import { createMedia } from "../browser/create-media.ts";
import { usePageContext } from "../session/page-context.tsx";
import { ChatContent } from "./chat-content.tsx";
import { createConversations } from "./create-conversations.ts";
import "./chat.css";

const parameter = "chat";
const id = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Returns the conversation that an address shows: its id, or `new`; `open` when the address names none, so that the panel shows its last
 * one; undefined while the panel is closed.
 */
const conversationOf = (address: string) => {
  const shown = new URLSearchParams(address.split("?")[1]).get(parameter);
  if (shown === null) return undefined;
  return shown === "new" || id.test(shown) ? shown : "open";
};

/** Returns a local address with this conversation in its panel; with the panel closed for undefined. */
const withConversation = (address: string, conversation: string | undefined) => {
  const [path = "", query] = address.split("?");
  const params = new URLSearchParams(query);
  params.delete(parameter);
  if (conversation !== undefined) params.append(parameter, conversation);
  return params.size === 0 ? path : `${path}?${params}`;
};

interface PanelProps {
  open: boolean;
  onClosed: () => void;
}

/** Creates the conversations of the panel, of which the address names the one that is shown. */
const createPanel = (props: PanelProps) => {
  const { api } = usePageContext();
  const docked = createMedia("(min-width: 1200px)");
  const location = useLocation();
  const navigate = useNavigate();
  const wanted = createMemo(() => (props.open ? conversationOf(location.search) : undefined));
  const last = createMemo<string | undefined>((before) =>
    wanted() === "open" ? before : (wanted() ?? before),
  );
  const shown = () => (wanted() === "open" ? (last() ?? "new") : wanted());
  createEffect(() => wanted() === "open" && show(shown(), true));
  let leaving = false;
  const show = (id: string | undefined, replace = false) => {
    leaving = true;
    navigate(withConversation(location.pathname + location.search, id), { scroll: false, replace });
    leaving = false;
  };
  const close = () => {
    show(undefined);
    props.onClosed();
  };
  // Links elsewhere in the page do not know the panel: beside the page it stays open, and a link in a panel that covers the page closes it.
  useBeforeLeave(({ to, options, preventDefault }) => {
    if (leaving || !docked() || shown() === undefined || typeof to !== "string") return;
    if (conversationOf(to) !== undefined) return;
    preventDefault();
    navigate(withConversation(to, shown()), { ...options, resolve: false });
  });
  const conversations = createConversations({
    api,
    shown,
    onCreated: (id) => show(id, true),
  });
  return { api, docked, shown, show, close, conversations };
};

/**
 * Chat at the side of the page: a region beside it where there is room, else a modal dialog that covers it. Conversations stay while the
 * panel is closed.
 */
export const ChatPanel = (props: PanelProps) => {
  const { api, docked, shown, show, close, conversations } = createPanel(props);
  let field: HTMLTextAreaElement | undefined;
  const content = (title: JSX.Element) => (
    <ChatContent
      api={api}
      title={title}
      conversations={conversations}
      onShow={show}
      onClose={close}
      fieldRef={(element) => {
        field = element;
      }}
    />
  );
  return (
    <Show
      when={docked()}
      fallback={
        <Dialog.Root open={shown() !== undefined} onOpenChange={(open) => open || close()}>
          <Dialog.Portal>
            <Dialog.Overlay class="drawer-overlay" />
            <Dialog.Content
              class="chat"
              onOpenAutoFocus={(event) => {
                event.preventDefault();
                field?.focus();
              }}
              // The button that opened it takes the focus.
              onCloseAutoFocus={(event) => event.preventDefault()}
            >
              {content(<Dialog.Title as="h2">Ask</Dialog.Title>)}
            </Dialog.Content>
          </Dialog.Portal>
        </Dialog.Root>
      }
    >
      <Show when={shown() !== undefined}>
        <Portal>
          <aside
            ref={() => queueMicrotask(() => field?.focus())}
            class="chat"
            aria-label="Ask"
            onKeyDown={(event) => {
              if (event.key === "Escape") close();
            }}
          >
            {content(<h2>Ask</h2>)}
          </aside>
        </Portal>
      </Show>
    </Show>
  );
};
