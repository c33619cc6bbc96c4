import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { listenOnLoopback } from "#scripts/ports.ts";
import { anthropicApi } from "./anthropic-api.ts";
import { openAiApi } from "./openai-api.ts";

/** A piece of a scripted answer. The text and the JSON of a tool call are sent in fragments. */
export type AnswerPart = { text: string } | { id: string; tool: string; json: string };

/** What the provider does with one request. The parts that a fault names are sent before it. */
export type ScriptedReply =
  | { answer: readonly AnswerPart[]; finish?: "length" | "refusal" }
  /** `endless`: the body never ends. */
  | { status: number; headers?: Readonly<Record<string, string>>; body?: string; endless?: boolean }
  /** Sends nothing, not even a status. */
  | { silent: true }
  /** Stops sending. */
  | { stallAfter: readonly AnswerPart[] }
  /** Resets the connection. */
  | { cutAfter: readonly AnswerPart[] }
  /** Ends the body without the events that end an answer. */
  | { endAfter: readonly AnswerPart[] }
  /** Sends an event that is no JSON. */
  | { malformedAfter: readonly AnswerPart[] }
  /** Reports an error in the stream, as a provider does that fails after the status 200; without parts as its first event. */
  | { errorAfter: readonly AnswerPart[]; type: string; message: string };

/** A received request. */
export interface ProviderRequest {
  path: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

/** The wire format of a provider: functions return server-sent events, one per element. */
export interface ProviderApi {
  path: string;
  /** Returns the fault of a request that the real API rejects with 400 or 401; null for a valid one. */
  faultOf(request: ProviderRequest, key: string): { status: number; message: string } | null;
  start(): string[];
  parts(parts: readonly AnswerPart[]): string[];
  finish(reason: "stop" | "tools" | "length" | "refusal"): string[];
  malformed(): string;
  error(type: string, message: string): string;
  errorBody(type: string, message: string): string;
}

/** A provider of language models on loopback. */
export type ModelProvider = Awaited<ReturnType<typeof startModelProvider>>;

/** Starts a provider that speaks the wire format of `api` and follows `script`: one reply per request, the last for all later ones. */
export const startModelProvider = async (
  api: "openai" | "anthropic",
  script: readonly ScriptedReply[],
) => {
  const wire = api === "openai" ? openAiApi : anthropicApi;
  const key = "sk-test-c0ffee";
  const requests: ProviderRequest[] = [];
  const open = new Set<ServerResponse>();
  const server = createServer(async (incoming, response) => {
    open.add(response);
    response.on("close", () => open.delete(response));
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const request = {
      path: incoming.url ?? "",
      headers: incoming.headers,
      body: JSON.parse(Buffer.concat(chunks).toString() || "{}"),
    };
    const reply = script[Math.min(requests.length, script.length - 1)];
    requests.push(request);
    const fault =
      request.path === wire.path
        ? wire.faultOf(request, key)
        : { status: 404, message: "no such path" };
    if (fault)
      send(response, {
        status: fault.status,
        body: wire.errorBody("invalid_request_error", fault.message),
      });
    else if (reply) send(response, reply, wire);
  });
  const port = await listenOnLoopback(server);
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    key,
    requests,
    /** Number of requests that are answered neither in full nor at all: those that a client left are not among them. */
    open: () => open.size,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};

const send = (response: ServerResponse, reply: ScriptedReply, wire: ProviderApi = openAiApi) => {
  if ("silent" in reply) return;
  if ("status" in reply) {
    response.writeHead(reply.status, { "Content-Type": "application/json", ...reply.headers });
    response.write(reply.body ?? wire.errorBody("server_error", "scripted"));
    if (!reply.endless) response.end();
    return;
  }
  response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
  const parts = Object.values(reply).find((value) => Array.isArray(value)) as readonly AnswerPart[];
  if (!("errorAfter" in reply && parts.length === 0))
    write(response, [...wire.start(), ...wire.parts(parts)]);
  if ("answer" in reply) {
    const called = parts.some((part) => "tool" in part);
    write(response, wire.finish(reply.finish ?? (called ? "tools" : "stop")));
    response.end();
  } else if ("malformedAfter" in reply) {
    write(response, [wire.malformed()]);
    response.end();
  } else if ("errorAfter" in reply) {
    write(response, [wire.error(reply.type, reply.message)]);
    response.end();
  } else if ("endAfter" in reply) response.end();
  // After a pause, so that the client has received the parts.
  else if ("cutAfter" in reply) setTimeout(() => response.socket?.resetAndDestroy(), 20);
};

/** Writes events in pieces that end in the middle of an event and of a character. */
const write = (response: ServerResponse, events: readonly string[]) => {
  const bytes = Buffer.from(events.join(""));
  for (let at = 0; at < bytes.length; at += 37) response.write(bytes.subarray(at, at + 37));
};

/** Splits a text into fragments of a few characters. */
export const fragments = (text: string, size = 5) =>
  text === "" ? [""] : (text.match(new RegExp(`[\\s\\S]{1,${size}}`, "g")) ?? []);
