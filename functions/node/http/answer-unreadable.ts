import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { RequestError } from "@hono/node-server";
import { errorCode } from "../../../kit/describe-error.ts";
import { type UnreadableRequest, unreadableAnswer } from "../../../kit/problem-document.ts";

/** A server that speaks HTTP/1.1: plain, or over TLS beside HTTP/2. */
interface Http1Server {
  on(event: "clientError", listener: (error: Error, socket: Socket) => void): unknown;
  on(
    event: "request",
    listener: (request: IncomingMessage, response: ServerResponse) => void,
  ): unknown;
}

/**
 * The authority of each request that adapters and apps receive. The client's own can be absent, or no host of a URL: an adapter that builds
 * one from it throws outside of every handler.
 */
export const requestAuthority = "localhost";

/** Problem codes by the error codes of Node's parser; any other error is `malformed_request`. */
const codes: Readonly<Record<string, UnreadableRequest>> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/**
 * Answers bytes that Node cannot read as a request with a problem document, and closes the connection; Node's own answer has an empty
 * body. Only closes the connection when a response is being sent, the client has disconnected or the TLS handshake is unfinished.
 */
export const answerUnreadable = (server: Http1Server): void => {
  const answers = new WeakMap<Socket, Set<ServerResponse>>();
  server.on("request", (request, response) => {
    // HTTP/2 closes a stream by itself, and `request.socket` is a proxy there.
    if (request.httpVersionMajor !== 1) return;
    const { socket } = request;
    // A client that pipelines requests has several responses open.
    const open = answers.get(socket) ?? new Set();
    answers.set(socket, open.add(response));
    response.once("close", () => open.delete(response));
  });
  server.on("clientError", (error, socket) => {
    const isSending = [...(answers.get(socket) ?? [])].some(
      (answer) => answer.headersSent && !answer.writableFinished,
    );
    if (!socket.writable || isSending || isUnfinishedHandshake(socket)) {
      socket.destroy();
      return;
    }
    socket.write(rawAnswer(codes[errorCode(error) ?? ""] ?? "malformed_request"));
    socket.destroySoon();
  });
};

/** A TLS server reports a failed handshake as a client error too, and what is written then waits for its end. */
const isUnfinishedHandshake = (socket: Socket & { secureConnecting?: boolean }): boolean =>
  socket.secureConnecting === true;

/** Returns the response to a request that Node could read and hono's adapter could not: its target is no URL. */
export const answerAdapterError = (error: unknown): Response => {
  // Apps answer their own errors; any other may hold secrets.
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
