import { generateKeyPairSync, sign, verify } from "node:crypto";
import type { Status } from "#collector/forward/messages.ts";
import { signBody } from "#collector/management/signed-request.ts";
import { systemClock } from "#kit/clock.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { measureHere } from "../support/processes.ts";
import type { HostConnection } from "./connection.ts";
import type { BenchHost } from "./enrolled-hosts.ts";

/** Signs the heartbeat of a healthy host now; `over` replaces fields of its body. */
export const signHeartbeat = (host: BenchHost, over: object = {}): string => {
  const body = heartbeatBody(systemClock.now(), { ...over });
  return JSON.stringify(signBody("heartbeat", host, { ...body, sent_at: String(body.sent_at) }));
};

/** Returns the status of a healthy host, with its report unless that is empty. */
export const statusWith = (report: string, digest: Uint8Array = Buffer.alloc(32, 1)): Status => ({
  digest,
  queue: {
    records: 3,
    bytes: 4096,
    oldestRecordAgeSeconds: 1,
    droppedRecordsTotal: 0,
    deadLetters: 0,
  },
  lastAckAgeSeconds: 1,
  usage: { rss_bytes: 8e7, cpu_ms: 5 },
  report: Buffer.from(report),
});

/** Sends a heartbeat; throws unless core accepts it. */
export const postHeartbeat = async (
  sender: Pick<HostConnection, "post"> | undefined,
  heartbeat: string | undefined,
): Promise<void> => {
  if (heartbeat === undefined || sender === undefined) throw new Error("a host is missing");
  const { status, text } = await sender.post("/v1/collector/heartbeat", heartbeat);
  if (status !== 200) throw new Error(`heartbeat rejected: ${text}`);
};

/** Verifies `count` P-256 signatures on this core, the least that a heartbeat costs; returns the rate, and the microseconds of CPU of each. */
export const verifySignatures = async (count: number) => {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const data = Buffer.alloc(300, 1);
  const signature = sign("sha256", data, privateKey);
  const { seconds, cpuSeconds } = await measureHere(() => {
    for (let index = 0; index < count; index++)
      if (!verify("sha256", data, publicKey, signature))
        throw new Error("a signature of ours does not verify");
  });
  return { perSecond: count / seconds, cpuUs: (cpuSeconds * 1e6) / count };
};
