import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, createRenderEffect, Show } from "solid-js";
import { askKey, createShortcuts } from "../browser/shortcuts.ts";
import { Button } from "../design/buttons.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { canAsk, usePageContext } from "../session/page-context.tsx";

// Loaded on demand: no page needs it until somebody asks.
const ChatPanel = lazyPart("The panel", async () => (await import("./chat-panel.tsx")).ChatPanel);

/** The button and the key that open chat, and the panel, whose conversation is in the address. Nothing where chat cannot be used. */
export const Ask = () => {
  const { session, shortcuts } = usePageContext();
  const location = useLocation();
  const navigate = useNavigate();
  const allowed = () => canAsk(session());
  const isAddressed = () => location.search.includes("chat=");
  const isOpen = createMemo(() => allowed() && isAddressed());
  // Stays mounted once opened: it keeps drafts, and answers that still arrive.
  const wasOpen = createMemo((before: boolean) => before || isOpen(), false);
  let button!: HTMLButtonElement;
  const open = () =>
    allowed() &&
    navigate(`${location.pathname}${location.search || "?"}&chat=open`, { scroll: false });
  createShortcuts([{ key: askKey, label: "", run: open }], shortcuts);
  // Makes room before the session and the panel have loaded.
  createRenderEffect(() =>
    document.documentElement.toggleAttribute(
      "data-chat",
      isAddressed() && (allowed() || session() === undefined),
    ),
  );

  return (
    <Show when={allowed()}>
      <Button ref={button} title="Ask about the fleet (a)" aria-expanded={isOpen()} onClick={open}>
        Ask
      </Button>
      <Show when={wasOpen()}>
        <ChatPanel open={isOpen()} returnFocus={() => button} />
      </Show>
    </Show>
  );
};
