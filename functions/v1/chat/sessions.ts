import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import {
  browseConversations,
  createConversation,
  deleteConversation,
  openConversation,
  readConversation,
  renameConversation,
} from "#functions/domain/chat/conversations.ts";
import { browseReceiptKeys, readReceipts } from "#functions/domain/chat/receipts.ts";
import { IdParams, personScope, resource } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import type { ChatMessageRow } from "#functions/store/chat/sessions.ts";
import { Name } from "#functions/v1/shapes.ts";
import { ReceiptFile, ReceiptKeys } from "#proto/chat/receipt.ts";
import { ChatConversation, ChatMessage, ChatSession, ChatStatus } from "#proto/chat/session.ts";
import { Identifier, PageOf } from "#proto/values.ts";

/** The routes of the caller's conversations. */
export const conversationRoutes = (core: ConfiguredCore, chat: Pick<Chat, "signer">) => {
  const by = personScope(core, "audit");
  return resource(core, "/v1/chat/sessions", ({ list, post, get, put, remove }) => ({
    listChatSessions: list("", "The caller's conversations, the last used first", {
      by,
      listName: "chat-sessions",
      returns: [
        "A page of conversations",
        PageOf(ChatSession),
        { items: [sessionExample], next_cursor: null },
      ],
      find: (page, { caller }) => browseConversations(core, caller, page),
      view: sessionView,
    }),

    createChatSession: post("", "Create a conversation of the caller, who may have 200", {
      by,
      body: v.strictObject({ title: v.optional(v.nullable(Name), null) }),
      bodyAbsentAs: {},
      bodyExample: { title: createdExample.title },
      returns: ["The conversation", ChatSession, createdExample],
      problems: ["conflict"],
      handle: async ({ body, caller }) =>
        sessionView(await createConversation(core, caller, body.title)),
    }),

    getChatSession: get("/:id", "A conversation of the caller with its messages, oldest first", {
      by,
      returns: [
        "The conversation",
        ChatConversation,
        { ...sessionExample, messages: messageExamples },
      ],
      handle: async ({ params, caller }) => {
        const { session, messages } = await readConversation(core, chat, caller, params.id);
        return { ...sessionView(session), messages: messages.map(messageView) };
      },
    }),

    renameChatSession: put("/:id", "Rename a conversation of the caller", {
      by,
      body: v.strictObject({ title: Identifier(120) }),
      bodyExample: { title: sessionExample.title },
      returns: ["The conversation", ChatSession, sessionExample],
      handle: async ({ params, body, caller }) =>
        sessionView(await renameConversation(core, caller, { ...params, ...body })),
    }),

    deleteChatSession: remove(
      "/:id",
      "Delete a conversation of the caller with its messages and receipts; an answer that is being written ends",
      {
        by,
        returns: ["The conversation is deleted"],
        handle: ({ params, caller }) => deleteConversation(core, caller, params.id),
      },
    ),
  }));
};

/** `GET /v1/chat/sessions/{id}/receipts`: the signed receipts of a conversation, the file that an auditor verifies. */
export const listReceiptsRoute = (core: ReadCore, chat: Pick<Chat, "signer">) =>
  route({
    method: "GET",
    path: "/v1/chat/sessions/:id/receipts",
    operationId: "getChatReceipts",
    summary:
      "The signed receipts of a conversation of the caller, for `svc-server verify-receipts`",
    guard: personScope(core, "audit"),
    params: IdParams,
    replies: {
      200: {
        description: "The receipts with their payloads, a signed head and the keys",
        schema: ReceiptFile,
      },
    },
    problems: ["not_found"],
    handle: async ({ params, caller }) => {
      await openConversation(core, chat, caller, params.id);
      const file = await readReceipts(core, chat.signer, { id: params.id, userId: caller.userId });
      const headers = {
        "Content-Disposition": `attachment; filename="chat-receipts-${params.id}.json"`,
      };
      return { status: 200, body: file, headers };
    },
  });

/** Returns the view of a conversation. */
const sessionView = viewOf(ChatSession);

const view = viewOf(ChatMessage);

/** Returns the view of a message; of an answer under way, the part that is stored. */
const messageView = (row: ChatMessageRow): ChatMessage =>
  view({
    ...row,
    parts: row.tail === "" ? row.parts : [...row.parts, { type: "text", text: row.tail }],
  });

const sessionExample: v.InferOutput<typeof ChatSession> = {
  id: "01920000-0000-7000-8000-0000000000c1",
  title: "Which hosts stopped forwarding since the rollout?",
  created_at: "2026-06-01T12:00:00.000Z",
  updated_at: "2026-06-01T12:01:30.000Z",
  message_count: 2,
};

const createdExample = { ...sessionExample, title: "Rollout of 1.4", message_count: 0 };

const messageExamples: v.InferOutput<typeof ChatMessage>[] = [
  {
    id: "01920000-0000-7000-8000-0000000000c2",
    role: "user",
    status: "complete",
    created_at: "2026-06-01T12:01:30.000Z",
    parts: [{ type: "text", text: "How many hosts are stale?" }],
  },
  {
    id: "01920000-0000-7000-8000-0000000000c3",
    role: "assistant",
    status: "complete",
    created_at: "2026-06-01T12:01:30.000Z",
    parts: [
      {
        type: "tool_call",
        call_id: "call_1",
        name: "query_sql",
        input: { statement: "select count(*) from collectors where state = 'stale'" },
      },
      {
        type: "tool_result",
        call_id: "call_1",
        name: "query_sql",
        result: {
          kind: "rows",
          columns: [{ name: "count", type: "bigint" }],
          rows: [[3]],
          row_count: 1,
          truncated: false,
        },
      },
      { type: "text", text: "3 hosts are stale." },
    ],
  },
];

/** The routes that report the model and the keys that sign receipts. */
export const chatReports = (core: ReadCore, chat: Chat) =>
  resource(core, "/v1/chat", ({ get }) => ({
    chatStatus: get(
      "/status",
      "The model, whether it may read the fleet, and the key that signs receipts",
      {
        by: personScope(core, "audit"),
        returns: [
          "The status of chat",
          ChatStatus,
          {
            provider: "anthropic",
            model: "a-model",
            sql_tools: { offered: true, reason: null },
            receipts: { key_id: "receipts-2026", ephemeral: false },
          },
        ],
        handle: async () => ({
          provider: chat.inference.provider,
          model: chat.inference.model,
          sql_tools: { offered: chat.sql !== null, reason: chat.sqlOffReason },
          receipts: {
            key_id: chat.signer.key.kid,
            ephemeral: chat.signer.key.svc_ephemeral === true,
          },
        }),
      },
    ),

    listReceiptKeys: get(
      "/receipt-keys",
      "Every public key that ever signed receipts, as a JWK set (RFC 7517)",
      {
        by: personScope(core, "audit"),
        returns: [
          "The keys, oldest first",
          ReceiptKeys,
          {
            keys: [
              {
                kty: "OKP",
                crv: "Ed25519",
                x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                kid: "receipts-2026",
                use: "sig",
                alg: "EdDSA",
              },
            ],
          },
        ],
        handle: async () => ({ keys: await browseReceiptKeys(core, chat.signer) }),
      },
    ),
  }));
