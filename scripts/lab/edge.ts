/**
 * A TLS edge in front of core, for labs, in place of nginx or a load balancer. It terminates TLS, requests a client certificate
 * without requiring one, and proxies `/v1` to core's plain HTTP port.
 *
 * Invariants: the client certificate header that core trusts is set by this edge alone (a header that a caller sends is dropped, and
 * `Connection` cannot remove the edge's); it is set only if the certificate chains to the enrollment CA and the peer proved its key;
 * every request carries `Via`.
 */
import { createServer } from "node:https";
import { TLSSocket } from "node:tls";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import { Hono } from "hono";
import { proxy } from "hono/proxy";
import { listenOnLoopback } from "../ports.ts";

/** PEM texts and where core is. */
export interface EdgeOptions {
  certPem: string;
  keyPem: string;
  /** Client certificates that chain to these are verified. */
  clientCaPem: string;
  /** Core's HTTP port: `http://127.0.0.1:8080`. */
  coreUrl: string;
  /** Core's `SVC_ENROLLMENT_CLIENT_CERT_HEADER`. */
  clientCertificateHeader: string;
  /** 0 or absent: a free port. */
  port?: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** How long core may take to start its response; by default 60 s, more than an external signer's timeout. */
  timeoutMs?: number;
}

/** An edge that listens. */
export interface Edge {
  /** `https://localhost:<port>`, without a slash at the end. */
  readonly url: string;
  /** Stops listening and cuts what is open. */
  close(): Promise<void>;
}

/** Hop-by-hop headers (RFC 9110, 7.6.1), and those that `fetch` sets itself. */
const ownHeaders =
  "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade expect host";

/** Headers in which a proxy describes the request that it received; a caller's are dropped. */
const isForwarding = (name: string): boolean =>
  name === "forwarded" || name === "via" || name === "x-real-ip" || name.startsWith("x-forwarded-");

/** Starts an edge; resolves when it listens. */
export const startEdge = async (options: EdgeOptions): Promise<Edge> => {
  const listener = getRequestListener(createEdgeApp(options).fetch, {
    overrideGlobalObjects: false,
  });
  const server = createServer(
    {
      cert: options.certPem,
      key: options.keyPem,
      ca: options.clientCaPem,
      requestCert: true,
      rejectUnauthorized: false,
      minVersion: "TLSv1.2",
      headersTimeout: 10_000,
      requestTimeout: 60_000,
    },
    (request, response) => void listener(request, response),
  );
  const port = await listenOnLoopback(server, options.port, options.host);
  return {
    url: `https://localhost:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};

const createEdgeApp = (options: EdgeOptions): Hono<{ Bindings: HttpBindings }> => {
  const { coreUrl, clientCertificateHeader, timeoutMs = 60_000 } = options;
  const app = new Hono<{ Bindings: HttpBindings }>();
  app.all("/v1/*", async (c) => {
    const { socket } = c.env.incoming;
    const headers = forwardedHeaders(c.req.raw.headers, clientCertificateHeader);
    headers.set("via", "1.1 edge");
    headers.set("x-forwarded-for", socket.remoteAddress ?? "");
    headers.set("x-forwarded-proto", "https");
    const certificate = verifiedCertificate(socket);
    if (certificate !== undefined)
      headers.set(clientCertificateHeader, encodeURIComponent(certificate));
    const { pathname, search } = new URL(c.req.url);
    // For the start of the response alone: exports are streamed.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutMs);
    try {
      return await proxy(coreUrl + pathname + search, {
        raw: c.req.raw,
        headers,
        redirect: "manual",
        signal: AbortSignal.any([c.req.raw.signal, late.signal]),
      });
    } catch {
      return refuse(late.signal.aborted ? 504 : 502);
    } finally {
      clearTimeout(timer);
    }
  });
  app.notFound(() => refuse(404));
  return app;
};

/** Returns the caller's headers without those that the edge sets. */
const forwardedHeaders = (received: Headers, clientCertificateHeader: string): Headers => {
  const headers = new Headers(received);
  const named = (received.get("connection") ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase());
  const dropped = new Set([
    ...ownHeaders.split(" "),
    ...named,
    clientCertificateHeader.toLowerCase(),
  ]);
  for (const name of received.keys())
    if (dropped.has(name) || isForwarding(name)) headers.delete(name);
  return headers;
};

/** Returns the PEM of the peer's certificate if the handshake verified it. */
const verifiedCertificate = (socket: unknown): string | undefined =>
  socket instanceof TLSSocket && socket.authorized
    ? socket.getPeerX509Certificate()?.toString()
    : undefined;

const refusals = {
  404: { code: "not_found", title: "No such path", action: "fix_request" },
  502: { code: "core_unreachable", title: "Core cannot be reached", action: "retry" },
  504: { code: "core_timeout", title: "Core did not answer in time", action: "retry" },
} as const;

const refuse = (status: keyof typeof refusals): Response => {
  const { code, title, action } = refusals[status];
  return new Response(
    JSON.stringify({ type: `urn:svc:problem:${code}`, title, status, detail: title, code, action }),
    {
      status,
      headers: { "Content-Type": "application/problem+json", "Cache-Control": "no-store" },
    },
  );
};
