import { useBeforeLeave, useLocation, useNavigate } from "@solidjs/router";
import { createEffect, createMemo, Show } from "solid-js";
import { Portal } from "solid-js/web";
import { createMedia } from "../browser/create-media.ts";
import { Drawer } from "../design/drawer.tsx";
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
  returnFocus: () => HTMLElement;
}

/** Creates the conversations of the panel, of which the address names the one that is shown. */
const createPanel = (props: PanelProps) => {
  const { api } = usePageContext();
  const docked = createMedia("(min-width: 75em)");
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
    if (docked()) props.returnFocus().focus();
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
  const content = () => (
    <ChatContent
      api={api}
      conversations={conversations}
      onShow={show}
      onClose={close}
      fieldRef={(element) => {
        queueMicrotask(() => element.focus());
      }}
    />
  );
  return (
    <Show when={shown() !== undefined}>
      <Show
        when={docked()}
        fallback={
          <Drawer
            class="chat"
            labelledBy="chat-title"
            onClose={close}
            returnFocus={props.returnFocus}
          >
            {content()}
          </Drawer>
        }
      >
        <Portal>
          <aside
            class="chat"
            aria-labelledby="chat-title"
            onKeyDown={(event) => {
              if (event.key === "Escape") close();
            }}
          >
            {content()}
          </aside>
        </Portal>
      </Show>
    </Show>
  );
};
