import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { type Problem, problemCatalog, transportStatus } from "#functions/problems.ts";
import { problemDocument } from "#kit/problem-document.ts";
import { resetUnread } from "./ingest-streams.ts";

/** A request of either protocol, and its response. */
export interface Exchange {
  request: IncomingMessage | Http2ServerRequest;
  response: ServerResponse | Http2ServerResponse;
}

/**
 * Answers a request that no handler has received, in its own protocol: the status of gRPC in the headers, the error of Connect in JSON, or
 * a problem document. Reads nothing of its body, and resets a stream that the client is still sending.
 */
export const refuseCall = (exchange: Exchange, problem: Problem, refusal: ConnectError) => {
  const { request, response } = exchange;
  if (response.headersSent || response.destroyed) return;
  if (isGrpc(exchange) && "stream" in request) {
    const headers = new Headers();
    setTrailerStatus(headers, refusal);
    const { stream } = request;
    if (stream.destroyed || stream.closed) return;
    stream.respond(
      { ":status": 200, "content-type": typeOf(request), ...Object.fromEntries(headers) },
      { endStream: true },
    );
    resetUnread(stream);
    return;
  }
  const { status, headers, body } = isRpc(exchange)
    ? connectAnswer(refusal)
    : problemAnswer(problem);
  const connection = "stream" in request ? {} : { Connection: "close" };
  (response as ServerResponse).writeHead(status, {
    ...headers,
    ...connection,
    "Content-Length": String(body.length),
  });
  (response as ServerResponse).end(body);
  if ("stream" in request) {
    const { stream } = request;
    (response as Http2ServerResponse).once("finish", () => resetUnread(stream));
  }
};

/** Reports whether a request is gRPC or gRPC-Web. */
export const isGrpc = ({ request }: Exchange) => /^application\/grpc\b/i.test(typeOf(request));

/** Reports whether a request has any protocol of Connect. */
const isRpc = (exchange: Exchange) =>
  isGrpc(exchange) || /^\/[\w.]+\.[A-Z]\w*\/[A-Z]\w*$/.test(pathOf(exchange.request));

/** Returns the path of a request, without its query. */
export const pathOf = (request: Exchange["request"]) => (request.url ?? "").split("?", 2)[0] ?? "";

const typeOf = ({ headers }: Exchange["request"]) => String(headers["content-type"] ?? "");

const connectAnswer = (error: ConnectError) => ({
  status: codeToHttpStatus(error.code),
  headers: { "Content-Type": "application/json" },
  body: Buffer.from(errorToJsonBytes(error, undefined)),
});

const problemAnswer = (problem: Problem) => {
  const { title, action } = problemCatalog[problem.code];
  const status = transportStatus[problem.kind].http;
  const requestId = randomUUID();
  const { body, headers } = problemDocument(problem, {
    status,
    title,
    action,
    requestId,
    challenge: "",
  });
  return { status, headers: { ...headers, "X-Request-Id": requestId }, body: Buffer.from(body) };
};
