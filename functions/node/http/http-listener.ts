import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { compressAnswer } from "../../../kit/compress-answer.ts";
import { containFailures } from "../../../kit/contain-failures.ts";
import type { HttpContext, Peer } from "../../http/request.ts";
import { answerAdapterError, answerUnreadable, requestAuthority } from "./answer-unreadable.ts";
import { contentCodings } from "./content-codings.ts";
import { BoundedRequest, serveConnections } from "./http-connections.ts";

/** A listener that accepts connections. */
export interface Listener {
  port: number;
  /** Stops accepting connections, lets requests in flight finish for `graceMs`, then closes the remaining connections. */
  close(graceMs: number): Promise<void>;
}

/** Returns the peer of a request on the plain HTTP listener, which has no TLS and so never a client certificate. */
export const httpPeerOf = (c: HttpContext): Peer => {
  const { incoming } = c.env as { incoming: IncomingMessage };
  return {
    remoteAddress: incoming.socket.remoteAddress ?? "",
    certificate: null,
    listener: "http",
  };
};

/** A connection on which nothing has been sent or received for this time ends; a stream of events sends a comment in less. */
const idleMs = 120_000;

/**
 * Serves a fetch handler over HTTP/1.1 on one address, or on every interface for `host` null. Limits slow and idle clients, and compresses
 * data for those who accept it.
 */
export const listenHttp = async (
  app: { fetch(request: Request, env: object): Response | Promise<Response> },
  {
    port,
    host,
    connectionsMax,
    onFailure = () => undefined,
  }: {
    port: number;
    host: string | null;
    connectionsMax?: number;
    /** Receives what a callback of a request or connection throws, which ends. */
    onFailure?: (error: unknown) => void;
  },
): Promise<Listener> => {
  const server = createServer({
    requestTimeout: 60_000,
    headersTimeout: 15_000,
    connectionsCheckingInterval: 5_000,
    keepAliveTimeout: 75_000,
    maxHeaderSize: 32 * 1024,
    IncomingMessage: BoundedRequest,
    requireHostHeader: false,
  });
  server.timeout = idleMs;
  const options = { overrideGlobalObjects: false, errorHandler: answerAdapterError };
  const answer = async (request: Request, env: object) =>
    compressAnswer(request, await app.fetch(request, env), contentCodings);
  const serve = getRequestListener(answer, options);
  serveConnections(
    server,
    (request, response) => {
      request.headers.host = requestAuthority;
      return serve(request, response);
    },
    connectionsMax,
  );
  answerUnreadable(server);
  containFailures(server, onFailure);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, ...(host === null ? {} : { host }) }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: (graceMs) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
};
