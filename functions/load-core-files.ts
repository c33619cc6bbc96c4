import { systemClock } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import type { CoreConfig } from "./config/core-config.ts";
import type { ReceiptSigner } from "./domain/chat/chat.ts";
import { createLogSigner, type LogSigner } from "./domain/completeness/log-signer.ts";
import type { LicenseSource } from "./domain/licensing/license.ts";
import { type CoreServers, createCoreServers } from "./node/database/database-servers.ts";
import { type FollowedFiles, followFiles } from "./node/follow-files.ts";
import { checkSinkFiles } from "./node/ingest/open-sink.ts";
import { createNodeCryptography, createNodeSigningKey } from "./node/node-cryptography.ts";
import { readKeyFile, readTrustedFile } from "./node/read-key-file.ts";
import { createConfigLoads, withConfigError } from "./node/with-config-error.ts";
import type { Cryptography } from "./signer/cryptography.ts";
import { loadReceiptSigner } from "./start-chat.ts";

/** The parts of core that come from files. */
export interface LoadedCore {
  cryptography: Cryptography;
  files: FollowedFiles;
  servers: CoreServers;
  /** Null: the community edition. */
  license: LicenseSource | null;
  /** Null without chat. */
  receiptSigner: ReceiptSigner | null;
  /** Null: the log of statements is not signed. */
  logSigner: LogSigner | null;
}

/** The PATH of an external signer if the environment has none. */
const defaultPath = "/usr/local/bin:/usr/bin:/bin";

/**
 * Loads the files that the configuration names, except those of the directory, which each sync reads again. Throws one `ConfigError` with
 * every fault. Uses no network.
 */
export const loadCoreFiles = async (config: CoreConfig, log: Log): Promise<LoadedCore> => {
  const { chat, ingest } = config;
  const cryptography = createNodeCryptography();
  const tools = { cryptography, clock: systemClock, log, path: process.env.PATH ?? defaultPath };
  const loads = createConfigLoads();
  const files = await loads.run(() => followFiles(config, tools));
  const license = await loads.run(() => readLicense(config));
  const servers = await loads.run(() => createCoreServers(config));
  const receiptSigner = await loads.run(() => chat && loadReceiptSigner(chat));
  const logSigner = await loads.run(() => readLogKey(config));
  await loads.run(() => ingest && checkSinkFiles(ingest));
  loads.end();
  if (!files || !servers) throw new Error("a load failed without a fault");
  const optional = {
    license: license ?? null,
    receiptSigner: receiptSigner ?? null,
    logSigner: logSigner ?? null,
  };
  return { cryptography, files, servers, ...optional };
};

const readLogKey = async ({ completeness }: CoreConfig): Promise<LogSigner | null> =>
  completeness &&
  withConfigError("SVC_COMPLETENESS_KEY_FILE", () =>
    createLogSigner(completeness.origin, createNodeSigningKey(readKeyFile(completeness.keyFile))),
  );

const readLicense = async ({ license }: CoreConfig): Promise<LicenseSource | null> =>
  license && {
    token: license.token,
    publicKeyPem: await withConfigError("SVC_LICENSE_PUBLIC_KEY_FILE", () =>
      readTrustedFile(license.publicKeyFile).toString("utf8"),
    ),
  };
