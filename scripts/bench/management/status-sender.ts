import { connect as connectTls } from "node:tls";
import { createControlRequests } from "../../../collector/forward/control-requests.ts";
import { openGrpcConnection } from "../../../collector/forward/grpc-stream.ts";
import {
  type Directive,
  decodeResponse,
  encodeOpen,
  forwardPath,
  type Status,
  type StatusAnswer,
} from "../../../collector/forward/messages.ts";
import { createStatusExchange } from "../../../collector/forward/status-exchange.ts";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { type CollectorTarget, postStream, tlsSettingsOf } from "../collector/collector-sender.ts";
import type { HttpsSender } from "../support/https-sender.ts";

/** A host with an open stream, of which core knows no telemetry. `post` sends on the same connection. */
export interface StatusSender extends HttpsSender {
  /** Sends a status and resolves with core's answer. */
  send(status: Status): Promise<StatusAnswer>;
}

const sixteen = () => systemEntropy.bytes(16);

/** Connects as a collector's forwarder does, with its own code; resolves once core takes statuses on the stream. */
export const connectStatuses = async (
  target: CollectorTarget,
  { identity, onDirective }: { identity: string; onDirective?: (directive: Directive) => void },
): Promise<StatusSender> => {
  const connection = openGrpcConnection({
    authority: `https://localhost:${target.port}`,
    createConnection: () => connectTls(tlsSettingsOf(target)),
    responseBytesMax: 65_536,
    pingIntervalMs: 30_000,
    pingTimeoutMs: 10_000,
    clock: systemClock,
  });
  const controls = createControlRequests();
  const exchange = createStatusExchange(controls);
  const end = new AbortController();
  const opened = Promise.withResolvers<void>();
  const open = async function* () {
    const queue = { queueId: sixteen(), sessionId: sixteen(), previousSessionIds: [], ackedThrough: 0, sentThrough: 0 };
    yield encodeOpen({ hostId: identity, ...queue, takesDirectives: onDirective !== undefined, leftQueues: [] });
    await new Promise((_, reject) => end.signal.addEventListener("abort", () => reject(end.signal.reason)));
  };
  connection
    .run({
      path: forwardPath,
      requests: controls.merge(open()),
      onResponse: (bytes) => {
        const response = decodeResponse(bytes);
        if (response === undefined) return;
        if ("opened" in response && response.opened.takesStatus) opened.resolve();
        else if ("statusAnswer" in response) exchange.answered(response.statusAnswer);
        else if ("directive" in response) onDirective?.(response.directive);
      },
      signal: end.signal,
    })
    .catch((error: unknown) => {
      opened.reject(error);
      exchange.end(error);
    });
  await opened.promise;
  return {
    send: exchange.send,
    post: async (path, body) => {
      const session = connection.session();
      if (session === undefined) throw new Error("the connection is closed");
      return postStream(session, path, body);
    },
    close: () => {
      end.abort(new Error("the bench is over"));
      connection.abort();
    },
  };
};
