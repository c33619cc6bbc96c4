import { setTimeout as sleep } from "node:timers/promises";
import { createSecureContext } from "node:tls";
import { createResumeTls } from "../../../collector/identity/resume-tls.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { connectHost } from "../host/connection.ts";
import { encodeFirst } from "../host/status-stream.ts";
import { rounded } from "../support/bench.ts";
import { createEnroller } from "./enroll.ts";
import { signedHeartbeat } from "./host.ts";
import { type FleetLab, fleetPrefix } from "./lab.ts";

const secondsMax = 20;

/** Revokes a host that has a stream open, and returns after how long the stream ended and a heartbeat was refused. */
export const measureRevocation = async (lab: FleetLab) => {
  const enroller = createEnroller({ apiPort: lab.apiPort(), token: lab.token, inFlight: 1 });
  const identity = `${fleetPrefix}revoked`;
  const credentials = await enroller.enroll({ identity, deviceId: "revoked" });
  enroller.close();
  const target = {
    port: lab.ingestPorts().at(-1) ?? 0,
    secureContext: createSecureContext({
      ca: lab.caPem,
      cert: credentials.cert,
      key: credentials.key,
    }),
    localAddress: "127.0.0.1",
  };
  const resume = createResumeTls();
  const connection = await connectHost(target, resume, () => undefined);
  let endedAt = Number.NaN;
  connection.forward(encodeFirst(identity, systemEntropy.bytes(16)), {
    onMessage: () => undefined,
    onEnd: () => {
      endedAt = performance.now();
    },
  });
  const path = "/v1/collector/heartbeat";
  const first = await connection.post(path, signedHeartbeat(identity, credentials));
  if (first.status !== 200) throw new Error(`a heartbeat was rejected: ${first.text}`);
  // Core has seen the stream before the identity is revoked.
  await sleep(500);
  const revokedAt = performance.now();
  await lab.api("admin", "POST", `/v1/collector/identities/${credentials.identityId}/revoke`, {
    reason_code: "host_compromised",
  });
  let refusedAt = Number.NaN;
  while (Number.isNaN(refusedAt) && performance.now() - revokedAt < secondsMax * 1000) {
    // Its connection ends with its stream or before: a new one is refused by the certificate's row.
    const again = await connectHost(target, resume, () => undefined);
    const { status, text } = await again.post(path, signedHeartbeat(identity, credentials));
    again.close();
    if (status !== 200 && text.includes("identity_revoked")) refusedAt = performance.now();
    else await sleep(500);
  }
  while (Number.isNaN(endedAt) && performance.now() - revokedAt < secondsMax * 1000)
    await sleep(20);
  connection.close();
  const secondsOf = (at: number) =>
    Number.isNaN(at) ? secondsMax : rounded((at - revokedAt) / 1000, 2);
  return {
    stream_ended_seconds: secondsOf(endedAt),
    heartbeat_refused_seconds: secondsOf(refusedAt),
  };
};
