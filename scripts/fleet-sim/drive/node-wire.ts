import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from "node:https";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
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
  codeOf,
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
  const asHost = (path: string, sent: Sent, credentials: HostCredentials) => {
    const { cert, key } = pemOf(credentials);
    if ("header" in management) {
      const headers = { [management.header]: encodeURIComponent(cert) };
      return exchange(api.url + path, sent, { agent, method: "POST", headers });
    }
    return exchange(management.url + path, sent, {
      ...caOf(management),
      cert,
      key,
      agent: false,
      method: "POST",
    });
  };
  return {
    call: async ({ method, path, bearer, body }) =>
      readObject(
        await exchange(api.url + path, body && jsonOf(body), {
          agent,
          method,
          headers: { authorization: `Bearer ${bearer}` },
        }),
      ),
    manage: async ({ path, body }, credentials) =>
      readObject(await asHost(path, jsonOf(body), credentials)),
    poll: async (message, credentials) => {
      const sent = { type: "application/x-protobuf", content: message };
      const answer = await asHost("/v1/opamp", sent, credentials);
      if (answer.status === 200) return answer.content;
      throw new WireError(codeOf(readObject(answer)), { isTransient: answer.status >= 500 });
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

interface Sent {
  type: string;
  content: string | Uint8Array;
}

interface Received {
  status: number;
  content: Buffer;
}

const jsonOf = (body: object): Sent => ({
  type: "application/json",
  content: JSON.stringify(body),
});

const exchange = async (
  url: string,
  sent: Sent | undefined,
  options: RequestOptions,
): Promise<Received> => {
  const send = url.startsWith("https:") ? httpsRequest : httpRequest;
  const { promise, resolve, reject } = Promise.withResolvers<Received>();
  const contentType = sent && { "content-type": sent.type };
  const request = send(
    url,
    { ...options, timeout: timeoutMs, headers: { ...options.headers, ...contentType } },
    (response) => {
      buffer(response).then(
        (content) => resolve({ status: response.statusCode ?? 0, content }),
        reject,
      );
    },
  );
  request.on("timeout", () => request.destroy(new WireError("timeout", { isTransient: true })));
  request.on("error", reject);
  request.end(sent?.content);
  return promise.catch((cause: unknown) => {
    if (cause instanceof WireError) throw cause;
    // The network's own code, such as `econnrefused`.
    throw new WireError(errorCode(cause)?.toLowerCase() ?? "unreachable", {
      cause,
      isTransient: true,
    });
  });
};

const readObject = ({ status, content }: Received): WireResponse => {
  try {
    const value: unknown = JSON.parse(content.toString());
    if (typeof value === "object" && value !== null)
      return { status, body: value as WireResponse["body"] };
  } catch {
    // Only the status is known.
  }
  return { status, body: {} };
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
