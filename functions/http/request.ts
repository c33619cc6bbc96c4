import type { Context } from "hono";
import type { RequestBodies } from "#kit/request-bodies.ts";

/** The client of a connection, as the listener sees it. */
export interface Peer {
  /** The direct remote address. Never taken from a forwarding header. */
  remoteAddress: string;
  /** DER of the TLS client certificate; null if the listener does not request one. */
  certificate: Uint8Array<ArrayBuffer> | null;
  /** On the ingest listener the TLS certificate alone identifies the caller; a proxy header is ignored. */
  listener: "http" | "ingest";
}

/** The facts of a request that a verb may use. */
export interface RequestOrigin {
  requestId: string;
  remoteAddress: string;
}

/** The variables of a request, set by the middleware of `app.ts`. */
interface HttpVariables {
  peer: Peer;
  origin: RequestOrigin;
  bodies: RequestBodies;
  /** The route's pattern, for logs and metrics. */
  route?: string;
}

/** The bindings and variables of core's Hono app. */
export interface HttpEnv {
  // biome-ignore lint/suspicious/noExplicitAny: the bindings differ by runtime, and only `Peer` factories read them
  Bindings: any;
  Variables: HttpVariables;
}

/** Core's request context. */
export type HttpContext = Context<HttpEnv>;
