import { parseCoreConfig } from "../../functions/config.ts";
import type { Core } from "../../functions/core.ts";
import { createNodeCryptography } from "../../functions/node/node-cryptography.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";

/** Core's dependencies as in production, over a bench's database and signer, and by its clock; only failures are logged. */
export const createBenchCore = (
  database: { db: Core["db"]; url: string },
  { signer, clientCertificates }: Pick<Core, "signer" | "clientCertificates">,
  now: () => number,
): Core => {
  const env = {
    SVC_DATABASE_URL: database.url,
    SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
    SVC_AUTH_TOKEN_SECRET: systemEntropy.bytes(32).toHex(),
    SVC_DIRECTORY_DOMAIN: "fleet.bench",
    SVC_DIRECTORY_DELEGATE_EMAIL: "root@fleet.bench",
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere",
  };
  const { config } = parseCoreConfig(env, () => "");
  const silent = () => undefined;
  return {
    config,
    db: database.db,
    reports: database.db,
    clock: { ...systemClock, now },
    entropy: systemEntropy,
    log: { debug: silent, info: silent, warn: silent, error: console.error },
    observe: { httpRequest: silent, enroll: silent, heartbeat: silent },
    cryptography: createNodeCryptography(),
    signer,
    clientCertificates,
  };
};
