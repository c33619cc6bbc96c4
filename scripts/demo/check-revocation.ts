import { readFile } from "node:fs/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Credentials } from "#collector/identity/credentials.ts";
import { callHeartbeat } from "#collector/management/calls.ts";
import { ManagementError } from "#collector/management/management-error.ts";
import { rfc3339 } from "#kit/clock.ts";
import type { ForwardRequestSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type { HeartbeatReport } from "#proto/management/heartbeat.ts";
import { connectIngest, ingestReasonOf } from "../fleet-sim/drive/node-wire.ts";
import type { LabContext } from "../lab/context.ts";
import { errorMessages } from "../lab/context.ts";
import type { Deployment } from "../lab/deployment.ts";
import type { EnrolledCollector } from "../lab/enroll-collector.ts";
import { heartbeatBody } from "../lab/heartbeat-body.ts";
import { waitUntil } from "../lab/wait-until.ts";

const cutSecondsMax = 5;
const refusals = ["identity_revoked", "certificate_revoked"];

/** Revokes a collector's identity over the API, and repeats a heartbeat and a stream with the revoked credentials. */
export const checkRevocation = async (
  { api, edge, pki, ingestEndpoint, readHealth }: Deployment,
  collector: EnrolledCollector,
  context: LabContext,
) => {
  const { clock } = context;
  const credentials = await collector.credentials();
  const caPem = await readFile(pki.serverCaFile, "utf8");
  const heartbeat = () => sendHeartbeat({ coreUrl: edge.url, caPem }, credentials, context);
  const openStream = () =>
    openIdleStream({ endpoint: ingestEndpoint, caPem }, credentials, context);
  const readRow = async () =>
    (await readHealth()).find(({ identity }) => identity === collector.identity);
  const row = await readRow();
  if (row === undefined) throw new Error(`${collector.identity} is not in the health report`);

  const before = await heartbeat();
  const stream = await openStream();
  try {
    const revokedAt = clock.monotonic();
    await api("admin", "POST", `/v1/collector/identities/${row.identity_id}/revoke`, {
      reason_code: "demo",
    });
    const after = await heartbeat();
    const end = await endOf(stream, context);
    const cutSeconds = (end.at - revokedAt) / 1000;
    const newStream = await openStream().then(({ close }) => {
      close();
      return "accepted";
    }, reasonOf);
    const shown = await waitUntil({ what: "health shows the revocation", ...context }, async () => {
      const { state, last_auth_failure } = (await readRow()) ?? {};
      return state === "revoked" && last_auth_failure
        ? { state, reason: last_auth_failure.reason }
        : undefined;
    });
    return {
      identity: collector.identity,
      // `accepted` before, the status and code of a refusal after.
      heartbeat_before: before.code,
      heartbeat_after: `${after.status} ${after.code}`,
      // Why and how fast core ended the open stream, and the reason with which it rejects a new one.
      stream_end: end.reason,
      stream_cut_seconds: Number(cutSeconds.toFixed(3)),
      new_stream: newStream,
      // As the fleet health report shows it.
      state: shown.state,
      last_auth_failure: shown.reason,
      ok:
        before.code === "accepted" &&
        after.status === 401 &&
        [after.code, end.reason, newStream, shown.reason].every((code) =>
          refusals.includes(code),
        ) &&
        cutSeconds <= cutSecondsMax,
    };
  } finally {
    stream.close();
  }
};

const reasonOf = (error: unknown): string => ingestReasonOf(error) ?? errorMessages(error);

/** Sends one signed heartbeat through the edge; returns `accepted` or the code of the refusal. */
const sendHeartbeat = async (
  { coreUrl, caPem }: { coreUrl: string; caPem: string },
  credentials: Credentials,
  { clock }: Pick<LabContext, "clock">,
): Promise<{ status: number; code: string }> => {
  const sentAt = {
    next: async () => rfc3339(clock.now()),
    adopt: () => undefined,
    follow: () => undefined,
    skewSeconds: () => 0,
  };
  const { sent_at: _, ...report } = heartbeatBody(clock.now(), { boot_id: "demo" });
  try {
    const transport = { baseUrl: coreUrl, caPem, serverName: undefined, timeoutMs: 10_000 };
    await callHeartbeat(transport, { credentials, sentAt }, report as unknown as HeartbeatReport);
    return { status: 200, code: "accepted" };
  } catch (error) {
    if (!(error instanceof ManagementError)) throw error;
    return { status: error.failure.status ?? 0, code: error.failure.code };
  }
};

/** An open Forward stream that sends nothing. */
interface IdleStream {
  /** When core ended it (monotonic milliseconds) and its reason. Never rejects. */
  readonly ended: Promise<{ at: number; reason: string }>;
  close(): void;
}

/** Opens a stream with a queue of its own; resolves once core has answered on it, rejects if core rejects it. */
const openIdleStream = async (
  target: { endpoint: string; caPem: string },
  { identity, certificatePem, keyPem }: Credentials,
  { clock, entropy }: LabContext,
): Promise<IdleStream> => {
  const server = { url: `https://${target.endpoint}`, caPem: target.caPem };
  const { session, client } = connectIngest(server, { cert: certificatePem, key: keyPem });
  const closed = Promise.withResolvers<void>();
  const requests = async function* (): AsyncGenerator<
    MessageInitShape<typeof ForwardRequestSchema>
  > {
    yield { message: { case: "open", value: { hostId: identity, queueId: entropy.bytes(16) } } };
    await closed.promise;
  };
  const responses = client.forward(requests())[Symbol.asyncIterator]();
  const close = () => {
    closed.resolve();
    session.abort();
  };
  try {
    await responses.next();
  } catch (error) {
    close();
    throw error;
  }
  const at = (reason: string) => ({ at: clock.monotonic(), reason });
  return {
    ended: responses.next().then(
      () => at("ended"),
      (error) => at(reasonOf(error)),
    ),
    close,
  };
};

/** Waits for the end of a stream, for at most twice the allowed time. */
const endOf = async (
  { ended }: IdleStream,
  { clock, signal }: LabContext,
): Promise<{ at: number; reason: string }> => {
  const waiting = new AbortController();
  const late = clock
    .sleep(2 * cutSecondsMax * 1000, AbortSignal.any([signal, waiting.signal]))
    .then(
      () => ({ at: Number.POSITIVE_INFINITY, reason: "still open" }),
      () => ended,
    );
  try {
    return await Promise.race([ended, late]);
  } finally {
    waiting.abort();
  }
};
