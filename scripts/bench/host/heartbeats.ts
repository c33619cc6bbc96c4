import { generateKeyPairSync, sign, verify } from "node:crypto";
import type { Status } from "#collector/forward/messages.ts";
import { signBody } from "#collector/management/signed-request.ts";
import { systemClock } from "#kit/clock.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { connectHost } from "#scripts/lab/host-connection.ts";
import type { BenchCore } from "../support/bench-core.ts";
import { connectHttps } from "../support/https-sender.ts";
import { measureHere } from "../support/processes.ts";
import type { BenchHost } from "./enrolled-hosts.ts";

/** Signs the heartbeat of a healthy host now; `over` replaces fields of its body. */
export const signHeartbeat = (
  host: BenchHost,
  over: Readonly<Record<string, unknown>> = {},
): object => {
  const body = heartbeatBody(systemClock.now(), over);
  return signBody("heartbeat", host, { ...body, sent_at: String(body.sent_at) });
};

/** Returns the status of a healthy host, with its report if there is one. */
export const statusWith = (
  report: object | undefined,
  digest: Uint8Array = Buffer.alloc(32, 1),
): Status => ({
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
  report: Buffer.from(report === undefined ? "" : JSON.stringify(report)),
});

/** A connected host that sends its heartbeats. */
export interface HeartbeatSender {
  /** Throws unless core accepts the heartbeat. */
  send(heartbeat: object): Promise<void>;
  close(): void;
}

const path = "/v1/collector/heartbeat";

/**
 * Connects a host by HTTP/1.1 (`http1`), or with an open stream by HTTP/2; with `stream` its first heartbeat alone is a report, and the others
 * are statuses on that stream.
 */
export const connectHeartbeats = async (
  { ingest, ingestPort: port, ca }: BenchCore,
  host: BenchHost,
  connections: string,
): Promise<HeartbeatSender> => {
  const expectOk = ({ status, text }: { status: number; text: string }) => {
    if (status !== 200) throw new Error(`heartbeat rejected: ${text}`);
  };
  if (connections === "http1") {
    const tls = { port, ca, cert: host.certificatePem, key: host.keyPem };
    const { post, close } = await connectHttps(tls);
    return {
      send: async (heartbeat) => expectOk(await post(path, JSON.stringify(heartbeat))),
      close,
    };
  }
  const { post, send, close } = await connectHost(ingest, host);
  if (connections !== "stream")
    return { send: async (heartbeat) => expectOk(await post(path, heartbeat)), close };
  let hasReported = false;
  return {
    send: async (heartbeat) => {
      const status = statusWith(hasReported ? undefined : heartbeat);
      hasReported = true;
      const { refused, reportNeeded } = await send(status);
      if (refused !== "" || reportNeeded)
        throw new Error(`status rejected: ${refused}, ${reportNeeded}`);
    },
    close,
  };
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
