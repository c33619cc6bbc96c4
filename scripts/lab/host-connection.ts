import { PassThrough } from "node:stream";
import { createConnector } from "#collector/forward/forwarder.ts";
import {
  type Directive,
  decodeResponse,
  encodeOpen,
  forwardPath,
} from "#collector/forward/messages.ts";
import { createStatusExchange, type StatusExchange } from "#collector/forward/stream.ts";
import type { Credentials } from "#collector/identity/credentials.ts";
import type { ManagementResponse } from "#collector/management/management-error.ts";
import { postJson } from "#collector/management/transport.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";

/** The ingest listener, `host:port`, and the PEM of the only accepted authorities. */
export interface IngestTarget {
  endpoint: string;
  caPem: string;
}

/** A host on its connection to the ingest listener, with an open Forward stream that has sent no telemetry. */
export interface HostConnection {
  /** Posts JSON on the same connection, as a collector does. */
  post(path: string, body: object): Promise<ManagementResponse>;
  /** Sends a status on the stream; resolves with core's answer. */
  send: StatusExchange["send"];
  /** Resolves with what ended the stream. Never rejects. */
  ended: Promise<unknown>;
  close(): void;
}

const timeoutMs = 30_000;

/** Connects a host as a collector's forwarder does; resolves once core has opened its stream, rejects if core rejects it. */
export const connectHost = async (
  { endpoint, caPem }: IngestTarget,
  credentials: Pick<Credentials, "identity" | "certificatePem" | "keyPem">,
  onDirective?: (directive: Directive) => void,
): Promise<HostConnection> => {
  const { identity, certificatePem: cert, keyPem: key } = credentials;
  const connection = createConnector(
    endpoint,
    { cert, key, ca: caPem },
    systemClock,
  )({
    compress: false,
  });
  const requests = new PassThrough({ objectMode: true });
  const statuses = createStatusExchange({ push: (request) => void requests.write(request) });
  const opened = Promise.withResolvers<void>();
  requests.write(encodeFirst(identity, onDirective !== undefined));
  const running = connection.run({
    path: forwardPath,
    requests,
    onResponse: (message) => {
      const response = decodeResponse(message);
      if (response.opened) opened.resolve();
      if (response.statusAnswer) statuses.answered(response.statusAnswer);
      if (response.directive) onDirective?.(response.directive);
    },
    signal: new AbortController().signal,
  });
  const ended = running.then(
    () => new Error("core ended the stream"),
    (reason: unknown) => reason,
  );
  void ended.then((reason) => {
    opened.reject(reason);
    statuses.end(reason);
  });
  const close = () => connection.abort();
  await opened.promise.catch((error: unknown) => {
    close();
    throw error;
  });
  const transport = {
    baseUrl: `https://${endpoint}`,
    caPem,
    serverName: undefined,
    timeoutMs,
    session: connection.session,
  };
  return {
    post: (path, body) => postJson(transport, { path, body, credentials }),
    send: statuses.send,
    ended,
    close,
  };
};

/** Returns the first message of a stream whose queue core does not know. */
const encodeFirst = (hostId: string, takesDirectives: boolean): Uint8Array => {
  const queueId = systemEntropy.bytes(16);
  return encodeOpen({
    hostId,
    queueId,
    sessionId: queueId,
    previousSessionIds: [],
    ackedThrough: 0,
    sentThrough: 0,
    takesDirectives,
    leftQueues: [],
  });
};
