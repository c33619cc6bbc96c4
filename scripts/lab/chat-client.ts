import { EventSourceParserStream } from "eventsource-parser/stream";
import type { ReceiptFile, ReceiptKeys } from "#proto/chat/receipt.ts";
import type { ToolResult } from "#proto/chat/session.ts";

/** Sends a request to a path below `/v1/chat`, with the caller's credentials, to core or through web. */
export type SendChat = (path: string, init?: RequestInit) => Promise<Response>;

/** A complete answer. */
export interface ChatAnswer {
  text: string;
  results: readonly ToolResult[];
}

/** A conversation of one person, as a program without a page has it. */
export interface ChatClient {
  /** Asks a question. Throws unless the answer is complete. */
  ask(question: string): Promise<ChatAnswer>;
  /** Downloads the receipts, byte by byte as core sent them. */
  receipts(): Promise<{ file: ReceiptFile; raw: string }>;
}

/** Starts a conversation. */
export const startConversation = async (send: SendChat): Promise<ChatClient> => {
  const { id } = (await json(await send("/sessions", post({})))) as { id: string };
  return {
    ask: async (content) => {
      const response = await accepted(await send(`/sessions/${id}/messages`, post({ content })));
      const events = response.body
        ?.pipeThrough(new TextDecoderStream())
        .pipeThrough(new EventSourceParserStream());
      const answer = { text: "", results: [] as ToolResult[] };
      for await (const { event, data } of events ?? []) {
        const value = JSON.parse(data);
        if (event === "text_delta") answer.text += value.text;
        else if (event === "tool_result") answer.results.push(value.result);
        else if (event === "error") throw new Error(`${content}: ${data}`);
        else if (event === "done" && value.status === "complete") return answer;
      }
      throw new Error(`${content}: the answer was cut off`);
    },
    receipts: async () => {
      const raw = await (await accepted(await send(`/sessions/${id}/receipts`))).text();
      return { file: JSON.parse(raw), raw };
    },
  };
};

/** Returns the public keys of receipts. */
export const readReceiptKeys = async (send: SendChat): Promise<ReceiptKeys> =>
  (await json(await send("/receipt-keys"))) as ReceiptKeys;

const post = (body: object): RequestInit => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

const accepted = async (response: Response): Promise<Response> => {
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${await response.text()}`);
  return response;
};

const json = async (response: Response): Promise<unknown> => (await accepted(response)).json();
