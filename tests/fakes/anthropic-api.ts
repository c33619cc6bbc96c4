import { fragments, type ProviderApi } from "./model-provider.ts";

const event = <Data extends { type: string }>(data: Data) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

const block = (index: number, content: object, deltas: readonly object[]) => [
  event({ type: "content_block_start", index, content_block: content }),
  ...deltas.map((delta) => event({ type: "content_block_delta", index, delta })),
  event({ type: "content_block_stop", index }),
];

interface Message {
  role: string;
  content: string | { type: string; id?: string; tool_use_id?: string }[];
}

/** The Anthropic messages API (`POST /v1/messages` with `stream: true`). */
export const anthropicApi: ProviderApi = {
  path: "/v1/messages",
  faultOf: ({ headers, body }, key) => {
    if (headers["x-api-key"] !== key)
      return { status: 401, message: `invalid x-api-key ${headers["x-api-key"]}` };
    if (!headers["anthropic-version"])
      return { status: 400, message: "anthropic-version: header is required" };
    if (body.stream !== true) return { status: 400, message: "this fake streams only" };
    if (typeof body.max_tokens !== "number")
      return { status: 400, message: "max_tokens: Field required" };
    const blocks = (message: Message | undefined) =>
      Array.isArray(message?.content) ? message.content : [];
    const messages = body.messages as Message[];
    const orphan = messages.some((message, at) => {
      const results = blocks(messages[at + 1]).map(({ tool_use_id: id }) => id);
      return blocks(message).some(({ type, id }) => type === "tool_use" && !results.includes(id));
    });
    if (orphan)
      return { status: 400, message: "tool_use ids were found without tool_result blocks" };
    const undeclared =
      !body.tools && messages.flatMap(blocks).some(({ type }) => type === "tool_use");
    return undeclared
      ? { status: 400, message: "tools are required for a conversation with tool_use blocks" }
      : null;
  },
  start: () => [
    event({
      type: "message_start",
      message: {
        id: "msg_fake",
        type: "message",
        role: "assistant",
        model: "fake-model",
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 10, output_tokens: 1 },
      },
    }),
    event({ type: "ping" }),
  ],
  parts: (parts) =>
    parts.flatMap((part, index) =>
      "text" in part
        ? block(
            index,
            { type: "text", text: "" },
            fragments(part.text).map((text) => ({ type: "text_delta", text })),
          )
        : block(
            index,
            { type: "tool_use", id: part.id, name: part.tool, input: {} },
            fragments(part.json).map((json) => ({ type: "input_json_delta", partial_json: json })),
          ),
    ),
  finish: (reason) => [
    event({
      type: "message_delta",
      delta: {
        stop_reason: {
          stop: "end_turn",
          tools: "tool_use",
          length: "max_tokens",
          refusal: "refusal",
        }[reason],
        stop_sequence: null,
      },
      usage: { output_tokens: 5 },
    }),
    event({ type: "message_stop" }),
  ],
  malformed: () =>
    'event: content_block_delta\ndata: {"type":"content_block_delta","delta":"secret-in-body\n\n',
  error: (type, message) => event({ type: "error", error: { type, message } }),
  errorBody: (type, message) => JSON.stringify({ type: "error", error: { type, message } }),
};
