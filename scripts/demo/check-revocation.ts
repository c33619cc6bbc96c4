import { readFile } from "node:fs/promises";
import type { Credentials } from "#collector/identity/credentials.ts";
import { failureOfResponse } from "#collector/management/management-error.ts";
import { signBody } from "#collector/management/signed-request.ts";
import { postJson } from "#collector/management/transport.ts";
import { rfc3339 } from "#kit/clock.ts";
import { GrpcError } from "#proto/grpc-status.ts";
import { errorMessages, type LabContext } from "../lab/context.ts";
import type { Deployment } from "../lab/deployment.ts";
import type { EnrolledCollector } from "../lab/enroll-collector.ts";
import { heartbeatBody } from "../lab/heartbeat-body.ts";
import { connectHost } from "../lab/host-connection.ts";
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
  const openStream = () => connectHost({ endpoint: ingestEndpoint, caPem }, credentials);
  const readRow = async () =>
    (await readHealth()).find(({ identity }) => identity === collector.identity);
  const row = await readRow();
  if (row === undefined) throw new Error(`${collector.identity} is not in the health report`);

  const before = await heartbeat();
  const stream = await openStream();
  const ended = stream.ended.then((error) => ({ at: clock.monotonic(), reason: reasonOf(error) }));
  try {
    const revokedAt = clock.monotonic();
    await api("admin", "POST", `/v1/collector/identities/${row.identity_id}/revoke`, {
      reason_code: "demo",
    });
    const after = await heartbeat();
    const end = await endOf(ended, context);
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

const reasonOf = (error: unknown): string =>
  (error instanceof GrpcError && error.reason()) || errorMessages(error);

/** Sends one signed heartbeat through the edge; returns `accepted` or the code of the refusal. */
const sendHeartbeat = async (
  { coreUrl, caPem }: { coreUrl: string; caPem: string },
  credentials: Credentials,
  { clock }: Pick<LabContext, "clock">,
): Promise<{ status: number; code: string }> => {
  const report = heartbeatBody(clock.now(), { boot_id: "demo" });
  const body = signBody("heartbeat", credentials, { ...report, sent_at: rfc3339(clock.now()) });
  const transport = { baseUrl: coreUrl, caPem, serverName: undefined, timeoutMs: 10_000 };
  const path = "/v1/collector/heartbeat";
  const response = await postJson(transport, { path, body, credentials });
  const { status } = response;
  return { status, code: status === 200 ? "accepted" : failureOfResponse(response).code };
};

interface StreamEnd {
  /** Monotonic milliseconds. */
  at: number;
  reason: string;
}

/** Waits for the end of a stream, for at most twice the allowed time. */
const endOf = async (
  ended: Promise<StreamEnd>,
  { clock, signal }: LabContext,
): Promise<StreamEnd> => {
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
