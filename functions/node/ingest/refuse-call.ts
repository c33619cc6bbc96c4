import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Stream,
} from "node:http2";
import type { ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { problemDocument } from "../../../kit/problem-document.ts";
import { type Problem, problemCatalog, transportStatus } from "../../problems.ts";

/** A request of either protocol, and its response. */
export interface Exchange {
  request: IncomingMessage | Http2ServerRequest;
  response: ServerResponse | Http2ServerResponse;
}

/** Whether a request speaks gRPC or gRPC-Web. */
export const isGrpc = ({ request }: Exchange): boolean =>
  /^application\/grpc\b/i.test(typeOf(request));

/** Whether a request speaks any protocol of Connect. */
const isRpc = (exchange: Exchange): boolean =>
  isGrpc(exchange) || /^\/[\w.]+\.[A-Z]\w*\/[A-Z]\w*$/.test(pathOf(exchange.request));

/** Returns the path of a request, without its query. */
export const pathOf = (request: Exchange["request"]): string =>
  (request.url ?? "").split("?", 2)[0] ?? "";

const typeOf = ({ headers }: Exchange["request"]): string => String(headers["content-type"] ?? "");

/**
 * Answers a request that no handler has received, in its own protocol: the status of gRPC in the headers, the error of Connect in JSON, or
 * a problem document. Reads nothing of its body, and resets a stream that the client is still sending.
 */
export const refuseCall = (exchange: Exchange, problem: Problem, refusal: ConnectError): void => {
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

const resetUnread = (stream: ServerHttp2Stream): void => {
  setImmediate(() => {
    if (!stream.closed) stream.close(constants.NGHTTP2_NO_ERROR);
  });
};

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
