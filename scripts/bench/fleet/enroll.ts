import { setTimeout as sleep } from "node:timers/promises";
import { createNodeWire } from "../../fleet-sim/drive/node-wire.ts";
import { textOf } from "../../fleet-sim/drive/wire.ts";
import { createBenchRequest } from "../host/bench-csr.ts";
import type { PemCredentials } from "./host.ts";

/** A core whose machine is full answers 503, and a collector tries again. */
const retriesMax = 10;
const retryMs = 1000;

/** Enrolls hosts over kept connections. */
export interface Enroller {
  /** Enrolls one with a new key. Rejects with core's answer when it refuses. */
  enroll(host: { identity: string; deviceId: string }): Promise<PemCredentials>;
  close(): void;
}

/** Creates an enroller at the API's port of loopback, as behind a TLS edge. */
export const createEnroller = (target: {
  apiPort: number;
  token: string;
  inFlight: number;
}): Enroller => {
  const wire = createNodeWire({
    api: { url: `http://127.0.0.1:${target.apiPort}`, caPem: undefined },
    ingest: undefined,
    connectionsMax: target.inFlight,
  });
  return {
    async enroll({ identity, deviceId }) {
      const { csrPem, keyPem } = createBenchRequest(identity);
      const body = {
        csr_pem: csrPem,
        device_id: deviceId,
        hostname: `${deviceId}.fleet.bench`,
        platform: "linux/amd64",
        collector_version: "1.2.3",
      };
      const post = () =>
        wire.call({ method: "POST", path: "/v1/collector/enroll", bearer: target.token, body });
      let response = await post();
      for (let retry = 0; response.status === 503 && retry < retriesMax; retry++) {
        await sleep(retryMs);
        response = await post();
      }
      if (response.status !== 201)
        throw new Error(`enrollment rejected: ${JSON.stringify(response.body)}`);
      return {
        cert: textOf(response.body, "certificate_pem"),
        key: keyPem,
        fingerprintSha256: textOf(response.body, "fingerprint_sha256"),
        identityId: textOf(response.body, "identity_id"),
      };
    },
    close: wire.close,
  };
};
