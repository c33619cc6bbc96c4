import { createApp } from "#functions/app.ts";
import { assembleCore } from "#functions/assemble-core.ts";
import { parseCoreConfig } from "#functions/config/core-config.ts";
import type { Core } from "#functions/core.ts";
import type { HttpContext, Peer } from "#functions/http/request.ts";
import { createNodeObjectReader } from "#functions/node/ingest/read-objects.ts";
import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { coreEnvironment } from "./core-environment.ts";
import { mintBridgeToken, type PersonName, people } from "./people.ts";

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

/** Returns a function that reads a path of core as a person. It throws for another status than 200. */
export const openReader = (core: Core, name: PersonName) => {
  const send = openApp(core);
  const secret = core.config.authTokenSecret.reveal();
  return async (path: string): Promise<Response> => {
    const token = await mintBridgeToken(secret, {
      sub: people[name].userId,
      now: core.clock.now(),
    });
    const headers = { Authorization: `Bearer ${token}` };
    const response = await send(new Request(`http://core.test${path}`, { headers }));
    if (response.status !== 200)
      throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  };
};
