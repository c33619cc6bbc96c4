import type { Context } from "hono";

/** The other end of the connection, as the listener sees it. */
export interface Peer {
  /** The direct remote address. Never taken from a forwarding header (contract, section 3). */
  remoteAddress: string;
  /** DER of the TLS client certificate; null where the listener asks for none. */
  certificate: Uint8Array<ArrayBuffer> | null;
  /** On the ingest listener the TLS certificate alone decides who calls; a proxy header is ignored. */
  listener: "http" | "ingest";
}

/** What a verb may know of the request that caused it. */
export interface RequestOrigin {
  requestId: string;
  remoteAddress: string;
}

/** The variables of a request. Set by the middleware of `app.ts`, in its order. */
export interface HttpVariables {
  peer: Peer;
  origin: RequestOrigin;
  /** The route's pattern, for logs and metrics. */
  route?: string;
}

/** Bindings and variables of core's Hono app. */
export interface HttpEnv {
  // biome-ignore lint/suspicious/noExplicitAny: the bindings differ by runtime, and only `Peer` factories read them
  Bindings: any;
  Variables: HttpVariables;
}

/** Core's request context. */
export type HttpContext = Context<HttpEnv>;
