/**
 * Management requests of collectors over HTTP/2, directly on their streams. Node's compatibility layer and Hono's adapter create a request, a
 * response and several streams for each, which cost as much as the request's own work. They still serve requests of an unusual form. Both ways
 * make the same checks, and the app receives the same request.
 */
import type { ServerResponse } from "node:http";
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { TLSSocket } from "node:tls";
import { answerAdapterError } from "../http/http-listener.ts";
import type { IngestListenerOptions } from "./ingest-listener.ts";
import { endWithResponse, resetUnread } from "./ingest-streams.ts";
import type { Exchange } from "./refuse-call.ts";

/** A request as HTTP/2 delivers it. */
interface StreamedRequest {
  stream: ServerHttp2Stream;
  headers: IncomingHttpHeaders;
  rawHeaders: readonly string[];
}

/** A request that has arrived: one of the compatibility layer, a `StreamedRequest`, or one to upgrade its connection. */
export interface Arrival {
  path: string;
  /** Emits `close` when the exchange is over. */
  lifetime: ServerHttp2Stream | ServerResponse | TLSSocket;
  /** It becomes a socket, which has no body and stays open. */
  isUpgrade?: boolean;
  /** Reports whether its body has arrived. */
  isRead(): boolean;
  exchange(): Exchange;
  serve(): void;
}

type App = IngestListenerOptions["app"];

/** Reports whether a request is a POST to one of `paths` as collectors send it: without a query, and with the length of its body. */
export const isUsualPost = (headers: IncomingHttpHeaders, paths: ReadonlySet<string>): boolean =>
  headers[":method"] === "POST" &&
  paths.has(headers[":path"] ?? "") &&
  headers[":scheme"] === "https" &&
  /^\d+$/.test(headers["content-length"] ?? "") &&
  headers.expect === undefined;

/** Returns the arrival of a request of `isUsualPost`, which `app` serves. Its stream emits no unhandled error. */
export const arrivalOfStream = (app: App, request: StreamedRequest, env: object): Arrival => {
  const { stream, headers, rawHeaders } = request;
  stream.on("error", () => undefined);
  return {
    path: headers[":path"] ?? "",
    lifetime: stream,
    isRead: () => stream.readableEnded,
    exchange() {
      const exchange = {
        request: new Http2ServerRequest(stream, headers, {}, rawHeaders),
        response: new Http2ServerResponse(stream),
      };
      endWithResponse(stream);
      return exchange;
    },
    serve: () => void serve(app, request, env),
  };
};

/** Passes a request to an app and sends the response. Resets a stream whose body the app has not read. Never rejects. */
const serve = async (
  app: App,
  { stream, headers }: StreamedRequest,
  env: object,
): Promise<void> => {
  try {
    // It has what the routes read.
    const request = new StreamRequest(stream, headers) as unknown as Request;
    const response = await Promise.resolve(app.fetch(request, env)).catch(answerAdapterError);
    const body = Buffer.from(await response.arrayBuffer());
    if (stream.closed || stream.headersSent) return;
    const sent = { ...Object.fromEntries(response.headers), "content-length": String(body.length) };
    stream.respond({ ":status": response.status, ...sent });
    stream.end(body);
    if (!stream.readableEnded) stream.once("finish", () => resetUnread(stream));
  } catch {
    stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }
};

class StreamRequest
  implements Pick<Request, "method" | "url" | "headers" | "signal" | "arrayBuffer">
{
  readonly method = "POST";
  readonly url: string;
  readonly #stream: ServerHttp2Stream;
  readonly #received: IncomingHttpHeaders;
  #headers: Headers | undefined;
  #signal: AbortSignal | undefined;

  constructor(stream: ServerHttp2Stream, received: IncomingHttpHeaders) {
    this.url = `https://${received[":authority"]}${received[":path"]}`;
    this.#stream = stream;
    this.#received = received;
  }

  get headers(): Headers {
    this.#headers ??= toHeaders(this.#received);
    return this.#headers;
  }

  /** Aborts when the client disconnects before the response has been sent. */
  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      const controller = new AbortController();
      const stream = this.#stream;
      stream.once("close", () => {
        if (!stream.writableFinished || stream.aborted) controller.abort();
      });
      this.#signal = controller.signal;
    }
    return this.#signal;
  }

  /** Reads the body, once. HTTP/2 enforces its length. */
  arrayBuffer(): Promise<ArrayBuffer> {
    const stream = this.#stream;
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.once("end", () => resolve(new Uint8Array(Buffer.concat(chunks)).buffer));
      stream.once("close", () => reject(new Error("the stream closed before its end")));
    });
  }
}

const toHeaders = (received: IncomingHttpHeaders): Headers => {
  const headers = new Headers();
  for (const [name, value] of Object.entries(received)) {
    if (name.startsWith(":")) continue;
    for (const each of [value].flat()) headers.append(name, each ?? "");
  }
  return headers;
};
