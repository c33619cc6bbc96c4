import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { RequestError } from "@hono/node-server";
import { errorCode } from "../../kit/describe-error.ts";
import { type UnreadableRequest, unreadableAnswer } from "../../kit/problem-document.ts";

/** A server that speaks HTTP/1.1: plain, or over TLS beside HTTP/2. */
interface Http1Server {
  on(event: "clientError", listener: (error: Error, socket: Socket) => void): unknown;
  on(event: "request", listener: (request: IncomingMessage, response: ServerResponse) => void): unknown;
}

/** What Node's parser found, by its code; anything else is malformed. */
const codes: Readonly<Record<string, UnreadableRequest>> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/**
 * Answers what Node cannot read as a request with a problem document, where Node's own answer has an empty body, and ends the
 * connection. Nothing is said in the middle of an answer that is under way, or where nobody can hear it.
 */
export const answerUnreadable = (server: Http1Server): void => {
  const answers = new WeakMap<Socket, Set<ServerResponse>>();
  server.on("request", (request, response) => {
    // Streams of HTTP/2 end by themselves, and their sockets are no sockets.
    if (request.httpVersionMajor !== 1) return;
    const { socket } = request;
    // Several, where the client does not wait for one before it asks for the next.
    const open = answers.get(socket) ?? new Set();
    answers.set(socket, open.add(response));
    response.once("close", () => open.delete(response));
  });
  server.on("clientError", (error, socket) => {
    const isUnderWay = [...(answers.get(socket) ?? [])].some(
      (answer) => answer.headersSent && !answer.writableFinished,
    );
    if (!socket.writable || isUnderWay) {
      socket.destroy();
      return;
    }
    socket.write(rawAnswer(codes[errorCode(error) ?? ""] ?? "malformed_request"));
    socket.destroySoon();
  });
};

/** The answer to a request that Node could read and hono's adapter could not: no host, or an address that is none. */
export const answerAdapterError = (error: unknown): Response => {
  // Apps answer their own errors; nothing may leak of one that did not.
  if (!(error instanceof RequestError)) return new Response(null, { status: 500 });
  const { status, headers, body } = unreadableAnswer("malformed_request", randomUUID());
  return new Response(body, { status, headers });
};

const rawAnswer = (code: UnreadableRequest): string => {
  const { status, headers, body } = unreadableAnswer(code, randomUUID());
  const lines = Object.entries({ ...headers, "Content-Length": String(Buffer.byteLength(body)) });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
    "",
    body,
  ].join("\r\n");
};
