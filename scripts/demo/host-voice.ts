/** What the demo itself says to core in the name of a host, with the host's own certificate and key, to see how it is answered. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { failureOf } from "../../collector/forward/failure.ts";
import type { Credentials } from "../../collector/identity/credentials.ts";
import { callHeartbeat } from "../../collector/management/calls.ts";
import { ManagementError } from "../../collector/management/management-error.ts";
import { type Clock, rfc3339 } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import { type ForwardRequestSchema, IngestService } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import type { HeartbeatReport } from "../../proto/management/heartbeat.ts";

/** Sends one signed heartbeat through the edge: `accepted`, or the code that it is refused with. */
export const tryHeartbeat = async (
  target: { coreUrl: string; caPem: string },
  pair: Credentials,
  clock: Clock,
): Promise<{ status: number; code: string }> => {
  const sentAt = {
    next: async () => rfc3339(clock.now()),
    adopt: () => undefined,
    follow: () => undefined,
    skewSeconds: () => 0,
  };
  try {
    const transport = { baseUrl: target.coreUrl, caPem: target.caPem, serverName: undefined, timeoutMs: 10_000 };
    await callHeartbeat(transport, { pair, sentAt }, reportAt(clock.now()));
    return { status: 200, code: "accepted" };
  } catch (error) {
    if (!(error instanceof ManagementError)) throw error;
    return { status: error.failure.status ?? 0, code: error.failure.code };
  }
};

const reportAt = (now: number): HeartbeatReport => ({
  boot_id: "demo",
  collector: {
    version: "0.1.0",
    commit: "unknown",
    hostname: "demo",
    platform: "linux/amd64",
    started_at: rfc3339(now),
  },
  config: { valid: true, errors: [], running_config_hash: null },
  queue: {
    records: 0,
    bytes: 0,
    max_bytes: 1,
    oldest_record_age_seconds: null,
    dropped_records_total: 0,
    at_risk: false,
  },
  forwarder: { connected: true, last_ack_at: null, last_error: null },
  renewal: { status: "not_configured", last_attempt_at: null, next_attempt_at: null, last_error: null },
});

/** A Forward stream that is open, and sends nothing. */
export interface IdleStream {
  /** When core ended it (monotonic milliseconds) and the reason that it gave. Never rejects. */
  readonly ended: Promise<{ at: number; reason: string }>;
  close(): void;
}

/** Opens a stream with a queue of its own; resolves once core has answered on it, rejects if core refuses. */
export const openIdleStream = async (
  target: { endpoint: string; caPem: string },
  pair: Credentials,
  { clock, entropy }: { clock: Clock; entropy: Entropy },
): Promise<IdleStream> => {
  const url = `https://${target.endpoint}`;
  const tls = { cert: pair.certificatePem, key: pair.keyPem, ca: target.caPem };
  const session = new Http2SessionManager(url, {}, tls);
  const client = createClient(IngestService, createGrpcTransport({ baseUrl: url, sessionManager: session }));
  const silence = Promise.withResolvers<void>();
  const requests = async function* (): AsyncGenerator<MessageInitShape<typeof ForwardRequestSchema>> {
    yield { message: { case: "open", value: { hostId: pair.identity, queueId: entropy.bytes(16) } } };
    await silence.promise;
  };
  const answers = client.forward(requests())[Symbol.asyncIterator]();
  const close = () => {
    silence.resolve();
    session.abort();
  };
  try {
    await answers.next();
  } catch (error) {
    close();
    throw error;
  }
  const ended = answers.next().then(
    () => ({ at: clock.monotonic(), reason: "ended" }),
    (error) => ({ at: clock.monotonic(), reason: failureOf(error).reason ?? failureOf(error).message }),
  );
  return { ended, close };
};
