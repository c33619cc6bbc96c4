import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from "node:https";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { rootCertificates } from "node:tls";
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createConnector } from "#collector/forward/forwarder.ts";
import { systemClock } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { FrameSchema, SubmitRequestSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { GrpcError } from "#proto/grpc-status.ts";
import { encodePem } from "#proto/pem.ts";
import {
  beaconSource,
  type HostCredentials,
  type Wire,
  WireError,
  type WireResponse,
} from "./wire.ts";

/** A server: `https://…`, or `http://…` on loopback; and the PEM of its only accepted CAs, the system's if undefined. */
export interface WireServer {
  url: string;
  caPem: string | undefined;
}

/** Where a core is. */
export interface NodeWireOptions {
  /** The HTTP API. */
  api: WireServer;
  /**
   * Management requests go to a TLS listener that requests the client certificate (an edge, or core's ingest listener), by default the API,
   * or to the API with the certificate in a header that core trusts.
   */
  management?: WireServer | { header: string };
  /** The ingest listener. Undefined: no host forwards. */
  ingest: WireServer | undefined;
  connectionsMax: number;
}

const timeoutMs = 30_000;

/** Creates the wire of a real network. It reuses connections to the API; a request with a client certificate has its own. */
export const createNodeWire = ({
  api,
  management = api,
  ingest,
  connectionsMax,
}: NodeWireOptions): Wire => {
  const limits = { keepAlive: true, maxSockets: connectionsMax };
  const agent = api.url.startsWith("https:")
    ? new HttpsAgent({ ...limits, ...caOf(api) })
    : new HttpAgent(limits);
  return {
    call: ({ method, path, bearer, body }) =>
      exchange(api.url + path, body, {
        agent,
        method,
        headers: { authorization: `Bearer ${bearer}` },
      }),
    manage: ({ path, body }, credentials) => {
      const { cert, key } = pemOf(credentials);
      if ("header" in management) {
        const headers = { [management.header]: encodeURIComponent(cert) };
        return exchange(api.url + path, body, { agent, method: "POST", headers });
      }
      return exchange(management.url + path, body, {
        ...caOf(management),
        cert,
        key,
        agent: false,
        method: "POST",
      });
    },
    forward: ingest === undefined ? null : createForward(ingest),
    close: () => agent.destroy(),
  };
};

const caOf = ({ caPem }: WireServer) => (caPem === undefined ? {} : { ca: caPem });

const pemOf = ({ key, certificate }: HostCredentials) => ({
  cert: encodePem(certificate, "CERTIFICATE"),
  key: encodePem(key, "PRIVATE KEY"),
});

const exchange = async (
  url: string,
  body: object | undefined,
  options: RequestOptions,
): Promise<WireResponse> => {
  const send = url.startsWith("https:") ? httpsRequest : httpRequest;
  const { promise, resolve, reject } = Promise.withResolvers<WireResponse>();
  const contentType = body === undefined ? {} : { "content-type": "application/json" };
  const request = send(
    url,
    { ...options, timeout: timeoutMs, headers: { ...options.headers, ...contentType } },
    (response) => {
      text(response).then(
        (received) => resolve({ status: response.statusCode ?? 0, body: parseObject(received) }),
        reject,
      );
    },
  );
  request.on("timeout", () => request.destroy(new WireError("timeout", { isTransient: true })));
  request.on("error", reject);
  request.end(body === undefined ? undefined : JSON.stringify(body));
  return promise.catch((cause: unknown) => {
    if (cause instanceof WireError) throw cause;
    // The network's own code, such as `econnrefused`.
    throw new WireError(errorCode(cause)?.toLowerCase() ?? "unreachable", {
      cause,
      isTransient: true,
    });
  });
};

const parseObject = (received: string): WireResponse["body"] => {
  try {
    const value: unknown = JSON.parse(received);
    return typeof value === "object" && value !== null ? (value as WireResponse["body"]) : {};
  } catch {
    return {};
  }
};

/** Returns a function that sends a frame to an ingest listener, over a connection of its own, as the certificate's host. */
export const createForward =
  ({ url, caPem }: WireServer): NonNullable<Wire["forward"]> =>
  async ({ identity, queueId, sequence }, credentials) => {
    const ca = caPem ?? rootCertificates.join("\n");
    const tls = { ...pemOf(credentials), ca };
    const connection = createConnector(new URL(url).host, tls, systemClock)({ compress: false });
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
    const request = toBinary(SubmitRequestSchema, create(SubmitRequestSchema, { frame }));
    try {
      await connection.run({
        path: "/svc.ingest.v1.IngestService/Submit",
        requests: Readable.from([request]),
        onResponse: () => undefined,
        signal: AbortSignal.timeout(timeoutMs),
      });
    } catch (cause) {
      const reason = cause instanceof GrpcError ? cause.reason() : null;
      throw new WireError(reason ?? "ingest_failed", { cause });
    } finally {
      connection.abort();
    }
  };
