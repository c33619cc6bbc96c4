import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { createBenchRequest } from "../management/bench-csr.ts";
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
export const createEnroller = (target: { apiPort: number; token: string; inFlight: number }): Enroller => {
  const agent = new Agent({ keepAlive: true, maxSockets: target.inFlight });
  const headers = { "content-type": "application/json", authorization: `Bearer ${target.token}` };
  const options = { agent, host: "127.0.0.1", port: target.apiPort, method: "POST", path: "/v1/collector/enroll" };
  const post = (body: object) =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const sent = request({ ...options, headers }, (response) => {
        text(response).then((received) => resolve({ status: response.statusCode ?? 0, text: received }), reject);
      });
      sent.on("error", reject);
      sent.end(JSON.stringify(body));
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
      let response = await post(body);
      for (let retry = 0; response.status === 503 && retry < retriesMax; retry++) {
        await sleep(retryMs);
        response = await post(body);
      }
      if (response.status !== 201) throw new Error(`enrollment rejected: ${response.text}`);
      const issued: { certificate_pem: string; fingerprint_sha256: string; identity_id: string } = JSON.parse(
        response.text,
      );
      return {
        ...{ cert: issued.certificate_pem, key: keyPem },
        ...{ fingerprintSha256: issued.fingerprint_sha256, identityId: issued.identity_id },
      };
    },
    close: () => agent.destroy(),
  };
};
