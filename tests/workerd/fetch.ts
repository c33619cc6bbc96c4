import type { Observer } from "#functions/counted-metrics.ts";
import type { Peer } from "#functions/http/request.ts";
import type { Clock } from "#kit/clock.ts";
import type { Environment } from "#kit/env.ts";
import type { TestCa } from "#scripts/lab/ca/test-pki.ts";
import type { TestLog } from "../fakes/log.ts";
import { decodeAnswer, encodeSettings, settingsHeader } from "./settings.ts";

/** Sends a request to a core as one that comes from `peer`. */
export type FetchAs = (request: Request, peer: Peer) => Promise<Response>;

/** Sends requests to the worker under test with the test core's configuration and clock, and copies its log and observations. */
export const createWorkerFetch =
  (
    workerUrl: string,
    core: {
      env: Environment;
      ca: TestCa;
      clock: Clock;
      log: TestLog;
      observe: Observer;
      signerUrl: string | null;
    },
  ): FetchAs =>
  async (request, { remoteAddress, certificate, listener }) => {
    const env = {
      ...core.env,
      SVC_ENROLLMENT_CA_CERT: core.ca.pem,
      SVC_ENROLLMENT_CA_KEY: core.ca.key.pem,
    };
    const headers = new Headers(request.headers);
    headers.set(
      settingsHeader,
      encodeSettings({
        env,
        now: core.clock.now(),
        remoteAddress,
        certificate: certificate?.toBase64() ?? null,
        listener,
        signerUrl: core.signerUrl,
      }),
    );
    const { pathname, search } = new URL(request.url);
    const response = await fetch(new URL(pathname + search, workerUrl), {
      method: request.method,
      headers,
      redirect: "manual",
      ...(request.body === null ? {} : { body: request.body, duplex: "half" }),
    });
    const { status, headers: answered, trace, body } = decodeAnswer(await response.arrayBuffer());
    const { lines, observations } = trace;
    for (const { level, message, fields } of lines) core.log[level]({ fields }, message);
    for (const { method, args } of observations)
      (core.observe[method] as (...args: unknown[]) => void)(...args);
    return new Response(status === 204 ? null : body, { status, headers: answered });
  };
