import { createApp } from "#functions/app.ts";
import { parseCoreConfig } from "#functions/config/core-config.ts";
import type { Core } from "#functions/core.ts";
import { unobserved } from "#functions/counted-metrics.ts";
import type { HttpContext, Peer } from "#functions/http/request.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { createClientCertificateReader } from "#functions/signer/certificate.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { untraced } from "#kit/tracing/tracer.ts";
import { coreEnvironment } from "./core-environment.ts";

/** The options of a core in this process; without a signer it enrolls no host. */
export interface InProcessCoreOptions
  extends Pick<Core, "db" | "clock">,
    Partial<
      Pick<
        Core,
        | "entropy"
        | "signer"
        | "clientCertificates"
        | "viewsShared"
        | "fleetColumns"
        | "pastColumns"
        | "hourColumns"
      >
    > {
  env?: Readonly<Record<string, string>>;
}

const silent = () => undefined;

/** Creates core's dependencies as in production, over a caller's database and clock. Only errors are logged. */
export const createInProcessCore = ({ env, ...dependencies }: InProcessCoreOptions): Core => {
  const { config } = parseCoreConfig(
    { ...coreEnvironment("postgres://in-process"), ...env },
    () => "",
  );
  const cryptography = createNodeCryptography();
  return {
    config,
    heartbeats: { db: dependencies.db },
    reports: dependencies.db,
    entropy: systemEntropy,
    log: { debug: silent, info: silent, warn: silent, error: console.error },
    observe: unobserved,
    tracer: untraced,
    cryptography,
    codec: zstdCodec,
    signer: null,
    clientCertificates: createClientCertificateReader({ authorities: [], cryptography }),
    watches: () => config.watches,
    chat: null,
    ...dependencies,
  };
};

/** Returns a function that sends requests to core's app without a listener, as from this peer. */
export const openApp = (
  core: Core,
): ((request: Request, peer?: Partial<Peer>) => Promise<Response>) => {
  const app = createApp(core, { peerOf: (c: HttpContext) => c.env.peer });
  return async (request, peer) =>
    app.fetch(request, {
      peer: { remoteAddress: "127.0.0.1", certificate: null, listener: "http", ...peer },
    });
};
