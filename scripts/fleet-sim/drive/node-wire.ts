import { Agent as HttpAgent, request as httpRequest, type RequestOptions } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import { text } from "node:stream/consumers";
import { type ConnectionOptions, checkServerIdentity } from "node:tls";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { failureOf } from "../../../collector/forward/failure.ts";
import { errorCode } from "../../../kit/describe-error.ts";
import { FrameSchema, IngestService } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { encodePem } from "../../../proto/pem.ts";
import { type Answer, type Beacon, beaconSource, type HostCredentials, type Wire, WireError } from "./wire.ts";

/** An mTLS listener and what its certificate must be. */
export interface TlsTarget {
  /** Base URL, `https://…`. */
  url: string;
  /** PEM of the only accepted authorities; the system's when undefined. */
  caPem: string | undefined;
  /** The name that its certificate must have; the URL's host when undefined. */
  serverName: string | undefined;
}

/** Where a core is. */
export interface NodeWireOptions {
  /** The HTTP API: `https://…`, or `http://…` on loopback. */
  api: { url: string; caPem: string | undefined };
  /**
   * Management requests go to a TLS listener that asks for the client certificate (an edge, or core's ingest listener), or to the API
   * with the certificate in a header that core trusts.
   */
  management: TlsTarget | { header: string };
  /** The ingest listener. Undefined: nobody forwards. */
  ingest: TlsTarget | undefined;
  connectionsMax: number;
}

const timeoutMs = 30_000;

/** The wire of a real network. The API's connections are kept open; with a client certificate each request has one of its own. */
export const createNodeWire = ({ api, management, ingest, connectionsMax }: NodeWireOptions): Wire => {
  const secure = api.url.startsWith("https:");
  const limits = { keepAlive: true, maxSockets: connectionsMax };
  const agent = secure
    ? new HttpsAgent({ ...limits, ...tlsOptions({ ...api, serverName: undefined }) })
    : new HttpAgent(limits);
  const call = (
    path: string,
    request: { method: string; headers: Record<string, string>; body?: object | undefined },
  ) => exchange(api.url + path, { ...request, options: { agent } });
  return {
    call: ({ method, path, bearer, body }) =>
      call(path, { method, headers: { authorization: `Bearer ${bearer}` }, body }),
    manage: ({ path, body }, { key, certificate }) => {
      const pem = encodePem(certificate, "CERTIFICATE");
      if ("header" in management)
        return call(path, { method: "POST", headers: { [management.header]: encodeURIComponent(pem) }, body });
      const options = {
        ...tlsOptions(management),
        cert: pem,
        key: encodePem(key, "PRIVATE KEY"),
        agent: false,
      } as const;
      return exchange(management.url + path, { method: "POST", headers: {}, body, options });
    },
    forward: ingest === undefined ? null : createForward(ingest),
    age: null,
    close: () => agent.destroy(),
  };
};

const tlsOptions = ({ url, caPem, serverName }: TlsTarget): ConnectionOptions => {
  const name = serverName ?? new URL(url).hostname.replace(/^\[|\]$/g, "");
  return {
    ...(caPem === undefined ? {} : { ca: caPem }),
    ...(isIP(name) === 0 ? { servername: name } : {}),
    checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
  };
};

const exchange = async (
  url: string,
  request: { method: string; headers: Record<string, string>; body?: object | undefined; options: RequestOptions },
): Promise<Answer> => {
  const { method, headers, body, options } = request;
  const send = url.startsWith("https:") ? httpsRequest : httpRequest;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const sent = send(
    url,
    {
      ...options,
      method,
      timeout: timeoutMs,
      headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    },
    (response) => {
      text(response).then(
        (said) => resolve({ status: response.statusCode ?? 0, body: objectOf(said) }),
        (cause) => reject(cause),
      );
    },
  );
  sent.on("timeout", () => sent.destroy(new WireError("timeout", { isPassing: true })));
  sent.on("error", (cause) => reject(cause));
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  return promise.catch((cause: unknown) => {
    throw cause instanceof WireError ? cause : new WireError(connectionCode(cause), { cause, isPassing: true });
  });
};

/** The network's own code, as `econnrefused`. */
const connectionCode = (cause: unknown): string => errorCode(cause)?.toLowerCase() ?? "unreachable";

const objectOf = (said: string): Answer["body"] => {
  try {
    const value: unknown = JSON.parse(said);
    return typeof value === "object" && value !== null ? (value as Answer["body"]) : {};
  } catch {
    return {};
  }
};

/** Sends frames to an ingest listener, each over a connection of its own, as the host that the certificate names. */
export const createForward =
  (target: TlsTarget): NonNullable<Wire["forward"]> =>
  async ({ identity, queueId, sequence }: Beacon, { key, certificate }: HostCredentials) => {
    const pair = { cert: encodePem(certificate, "CERTIFICATE"), key: encodePem(key, "PRIVATE KEY") };
    const session = new Http2SessionManager(target.url, {}, { ...tlsOptions(target), ...pair });
    const client = createClient(IngestService, createGrpcTransport({ baseUrl: target.url, sessionManager: session }));
    const frame = create(FrameSchema, {
      hostId: identity,
      queueId,
      previousSequence: BigInt(sequence - 1),
      envelopes: [
        {
          sequence: BigInt(sequence),
          kind: "log_line",
          observedAt: timestampFromMs(Date.now()),
          source: beaconSource,
          payload: new TextEncoder().encode(`frame ${sequence}`),
        },
      ],
    });
    try {
      await client.submit({ frame }, { timeoutMs });
    } catch (cause) {
      throw new WireError(failureOf(cause).reason ?? "ingest_failed", { cause });
    } finally {
      session.abort();
    }
  };
