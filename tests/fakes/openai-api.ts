import { fragments, type ProviderApi } from "./model-provider.ts";

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;

const chunk = (delta: object, finish: string | null = null) =>
  event({
    id: "chatcmpl-fake",
    object: "chat.completion.chunk",
    created: 1_780_315_200,
    model: "fake-model",
    system_fingerprint: "fp_fake",
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  });

interface Message {
  role: string;
  content?: unknown;
  tool_calls?: { id: string }[];
  tool_call_id?: string;
}

/** The OpenAI chat completions API (`POST /v1/chat/completions` with `stream: true`). */
export const openAiApi: ProviderApi = {
  path: "/v1/chat/completions",
  faultOf: ({ headers, body }, key) => {
    if (headers.authorization !== `Bearer ${key}`)
      return { status: 401, message: `Incorrect API key provided: ${headers.authorization}` };
    if (body.stream !== true) return { status: 400, message: "this fake streams only" };
    const messages = body.messages as Message[];
    const orphan = messages.some(({ tool_calls: calls = [] }, at) => {
      const results = messages
        .slice(at + 1, at + 1 + calls.length)
        .map(({ tool_call_id: id }) => id);
      return calls.some(({ id }) => !results.includes(id));
    });
    if (orphan) return { status: 400, message: "a tool_call_id did not have a response message" };
    // As LiteLLM does.
    const undeclared = !body.tools && messages.some(({ tool_calls: calls }) => calls);
    return undeclared
      ? { status: 400, message: "tools are required for a conversation with tool calls" }
      : null;
  },
  start: () => [chunk({ role: "assistant", content: "", refusal: null })],
  parts: (parts) => {
    let index = 0;
    return parts.flatMap((part) => {
      if ("text" in part) return fragments(part.text).map((content) => chunk({ content }));
      const call = (fields: object) => chunk({ tool_calls: [{ index, ...fields }] });
      const events = [
        call({ id: part.id, type: "function", function: { name: part.tool, arguments: "" } }),
        ...fragments(part.json).map((json) => call({ function: { arguments: json } })),
      ];
      index++;
      return events;
    });
  },
  finish: (reason) => [
    chunk(
      {},
      { stop: "stop", tools: "tool_calls", length: "length", refusal: "content_filter" }[reason],
    ),
    event({
      id: "chatcmpl-fake",
      object: "chat.completion.chunk",
      created: 1_780_315_200,
      model: "fake-model",
      choices: [],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    }),
    "data: [DONE]\n\n",
  ],
  malformed: () => 'data: {"id":"chatcmpl-fake","choices":[{"delta":{"content":"secret-in-body\n\n',
  error: (type, message) => event({ error: { message, type, param: null, code: null } }),
  errorBody: (type, message) =>
    JSON.stringify({ error: { message, type, param: null, code: null } }),
};
