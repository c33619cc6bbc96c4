import { type Accessor, createMemo, getOwner, runWithOwner } from "solid-js";
import type { ApiClient } from "../api/api-client.ts";
import { createAnnouncer } from "./announcer.tsx";
import { createReceiptStatuses, type ReceiptStatus } from "./check-answers.ts";
import { type Conversation, createConversationView, type ShownMessage } from "./conversation.ts";

/** A conversation with what the panel shows of it. */
export interface OpenConversation extends Conversation {
  announcer: ReturnType<typeof createAnnouncer>;
  receiptStatusOf(message: ShownMessage): ReceiptStatus;
}

/** The conversations that this page has opened. */
export type Conversations = ReturnType<typeof createConversations>;

/** Keeps conversations by id, so that drafts and answers in progress survive a look at another one. */
export const createConversations = (options: {
  api: ApiClient;
  shown: Accessor<string | undefined>;
  /** The new conversation that is shown has been stored. */
  onCreated(id: string): void;
}) => {
  const { api } = options;
  const owner = getOwner();
  const opened = new Map<string, OpenConversation>();
  const open = (storedId?: string): OpenConversation => {
    const announcer = createAnnouncer();
    const conversation: Conversation = createConversationView(
      {
        api,
        observer: {
          ...announcer,
          created: (id) => {
            const wasShown = current() === made;
            opened.set(id, made);
            opened.delete("new");
            if (wasShown) options.onCreated(id);
          },
        },
      },
      storedId,
    );
    const made: OpenConversation = {
      ...conversation,
      announcer,
      receiptStatusOf: createReceiptStatuses(api, conversation),
    };
    if (storedId !== undefined) void conversation.load();
    return made;
  };
  const current = createMemo((before: OpenConversation | undefined): OpenConversation => {
    const id = options.shown();
    if (id === undefined && before) return before;
    const key = id ?? "new";
    const known = opened.get(key);
    if (known) return known;
    // Owned by the panel: the memo would end its effects at the next conversation.
    const made = runWithOwner(owner, () =>
      open(key === "new" ? undefined : key),
    ) as OpenConversation;
    opened.set(key, made);
    return made;
  });
  return {
    /** That of the address. */
    current,
    /** Follows a change that the list made. */
    renamed: (id: string, title: string) => opened.get(id)?.setTitle(title),
    deleted: (id: string) => {
      opened.get(id)?.stop();
      opened.delete(id);
    },
  };
};
