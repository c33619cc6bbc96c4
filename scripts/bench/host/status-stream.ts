import { type Directive, decodeResponse, encodeOpen } from "#collector/forward/messages.ts";
import { createStatusExchange, type StatusExchange } from "#collector/forward/stream.ts";
import { createResumeTls } from "#collector/identity/resume-tls.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { connectHost, type HostConnection, type HostTarget } from "./connection.ts";

/** Returns the first message of a host's stream, of whose telemetry core knows nothing. */
export const encodeFirst = (
  hostId: string,
  queueId: Uint8Array,
  takesDirectives = false,
): Uint8Array =>
  encodeOpen({
    hostId,
    queueId,
    sessionId: queueId,
    previousSessionIds: [],
    ackedThrough: 0,
    sentThrough: 0,
    takesDirectives,
    leftQueues: [],
  });

/** The host of a stream, and what it does when core opens and ends the stream. */
export interface StatusStream {
  identity: string;
  queueId: Uint8Array;
  onOpened(takesStatus: boolean): void;
  onEnd(): void;
  onDirective?: ((directive: Directive) => void) | undefined;
}

/** Opens the stream that carries a host's statuses, as a collector's forwarder does. */
export const openStatusStream = (
  connection: HostConnection,
  stream: StatusStream,
): StatusExchange => {
  const { identity, queueId, onOpened, onEnd, onDirective } = stream;
  const push = connection.forward(encodeFirst(identity, queueId, onDirective !== undefined), {
    onMessage: (message) => {
      const response = decodeResponse(message);
      if (response === undefined) return;
      if ("opened" in response) onOpened(response.opened.takesStatus);
      else if ("statusAnswer" in response) exchange.answered(response.statusAnswer);
      else if ("directive" in response) onDirective?.(response.directive);
    },
    onEnd,
  });
  const exchange = createStatusExchange({ push });
  return exchange;
};

/** A connected host whose stream takes statuses; `post` sends on the same connection. */
export type StatusSender = Pick<HostConnection, "post" | "close"> & Pick<StatusExchange, "send">;

/** Connects a host; resolves once core takes statuses on its stream. */
export const connectStatuses = async (
  target: HostTarget,
  identity: string,
  onDirective?: (directive: Directive) => void,
): Promise<StatusSender> => {
  const opened = Promise.withResolvers<void>();
  let exchange: StatusExchange | undefined;
  const onEnd = () => {
    const reason = new Error("core ended the stream");
    opened.reject(reason);
    exchange?.end(reason);
  };
  const connection = await connectHost(target, createResumeTls(), onEnd);
  const onOpened = (takesStatus: boolean) => {
    if (takesStatus) opened.resolve();
  };
  const queueId = systemEntropy.bytes(16);
  exchange = openStatusStream(connection, { identity, queueId, onOpened, onEnd, onDirective });
  await opened.promise;
  return { post: connection.post, close: connection.close, send: exchange.send };
};
