import { createApp } from "#functions/app.ts";
import { assembleCore } from "#functions/assemble-core.ts";
import { parseCoreConfig } from "#functions/config/core-config.ts";
import type { Core } from "#functions/core.ts";
import type { HttpContext, Peer } from "#functions/http/request.ts";
import { createNodeObjectReader } from "#functions/node/ingest/read-objects.ts";
import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { coreEnvironment } from "./core-environment.ts";

const silent = () => undefined;

/**
 * Assembles a core in this process over a caller's database and clock, as in production; without a signer it enrolls no host. Only errors are
 * logged.
 */
export const createInProcessCore = ({
  env,
  ...parts
}: Pick<Core, "db" | "clock"> &
  Partial<Core> & { env?: Readonly<Record<string, string>> }): Core => {
  const { config } = parseCoreConfig(
    { ...coreEnvironment("postgres://in-process"), ...env },
    () => "",
  );
  return assembleCore({
    config,
    objects: createNodeObjectReader(parts.db, config.storeKeys),
    entropy: systemEntropy,
    log: { debug: silent, info: silent, warn: silent, error: console.error },
    cryptography: createNodeCryptography(),
    ...parts,
  });
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
