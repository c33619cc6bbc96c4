import { readFile } from "node:fs/promises";
import { failureOf } from "../../collector/forward/failure.ts";
import type { Clock } from "../../kit/clock.ts";
import type { FleetHealthRow } from "../../proto/fleet-health/row.ts";
import type { DemoCollector } from "../lab/enroll-collector.ts";
import { waitUntil } from "../lab/wait-until.ts";
import { readHealth } from "./health.ts";
import { type IdleStream, openIdleStream, tryHeartbeat } from "./host-voice.ts";
import type { Surroundings, World } from "./world.ts";

/** How core treats a host before and after its identity is revoked. */
export interface RevocationReport {
  identity: string;
  /** The code of a signed heartbeat: `accepted` before, a refusal after. */
  heartbeat_before: string;
  heartbeat_after: string;
  /** Why and how fast core ended the stream that was open, and what it says to a new one. */
  stream_end: string;
  stream_cut_seconds: number;
  new_stream: string;
  /** As the fleet health report shows it. */
  state: string;
  last_auth_failure: string;
  ok: boolean;
}

const cutSecondsMax = 5;
const refusals = ["identity_revoked", "certificate_revoked"];

/** Revokes an identity over the API, and tries what the host did before. */
export const revokeHost = async (
  { api, core, edge, lab }: World,
  collector: DemoCollector,
  { clock, entropy, signal }: Surroundings,
): Promise<RevocationReport> => {
  const caPem = await readFile(lab.serverCaFile, "utf8");
  const pair = await collector.pair();
  const heartbeat = () => tryHeartbeat({ coreUrl: edge.url, caPem }, pair, clock);
  const openStream = () => openIdleStream({ endpoint: core.ingestEndpoint, caPem }, pair, { clock, entropy });
  const isIt = ({ identity }: FleetHealthRow) => identity === collector.identity;
  const row = (await readHealth(api)).find(isIt);
  if (row === undefined) throw new Error(`${collector.identity} is not in the health report`);

  const before = await heartbeat();
  const stream = await openStream();
  try {
    const revokedAt = clock.monotonic();
    await api("admin", "POST", `/v1/collector/identities/${row.identity_id}/revoke`, { reason_code: "demo" });
    const after = await heartbeat();
    const end = await withinPatience(stream.ended, clock, signal);
    const cutSeconds = (end.at - revokedAt) / 1000;
    const again = await openStream().then(
      (open) => {
        open.close();
        return "accepted";
      },
      (error) => failureOf(error).reason ?? failureOf(error).message,
    );
    const shown = await waitUntil({ what: "health shows the revocation", clock, signal }, async () => {
      const { state, last_auth_failure } = (await readHealth(api)).find(isIt) ?? {};
      return state === "revoked" && last_auth_failure ? { state, reason: last_auth_failure.reason } : undefined;
    });
    return {
      identity: collector.identity,
      heartbeat_before: before.code,
      heartbeat_after: `${after.status} ${after.code}`,
      stream_end: end.reason,
      stream_cut_seconds: Number(cutSeconds.toFixed(3)),
      new_stream: again,
      state: shown.state,
      last_auth_failure: shown.reason,
      ok:
        before.code === "accepted" &&
        after.status === 401 &&
        [after.code, end.reason, again, shown.reason].every((code) => refusals.includes(code)) &&
        cutSeconds <= cutSecondsMax,
    };
  } finally {
    stream.close();
  }
};

/** The end of a stream, or that it is still open after twice the time that it may take. */
const withinPatience = async (ended: IdleStream["ended"], clock: Clock, signal: AbortSignal) => {
  const waiting = new AbortController();
  const late = clock.sleep(2 * cutSecondsMax * 1000, AbortSignal.any([signal, waiting.signal])).then(
    () => ({ at: Number.POSITIVE_INFINITY, reason: "still open" }),
    () => ended,
  );
  try {
    return await Promise.race([ended, late]);
  } finally {
    waiting.abort();
  }
};
