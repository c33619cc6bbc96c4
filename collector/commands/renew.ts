import { join } from "node:path";
import { defaultConfigPath, type UsableConfig } from "../config/load-config.ts";
import { authoritiesOf } from "../identity/channel-trust.ts";
import { describeCertificate } from "../identity/credentials.ts";
import { openIdentityDirectory } from "../identity/identity-directory.ts";
import { retryCall } from "../management/retry-call.ts";
import type { TransportOptions } from "../management/transport.ts";
import {
  CredentialsRejectedByConfigError,
  renewCredentials,
  renewTimeoutMs,
} from "../renewal/renew-credentials.ts";
import {
  type CommandOutcome,
  configFailure,
  defineCommand,
  exitCode,
  identityDirectoryFor,
  loadUsableConfig,
  usageFailure,
} from "./command.ts";
import { asCommandFailure, reportRetry } from "./core-failure.ts";
import { readBundle, readCoreUrl, renewalFile } from "./enroll-options.ts";

/**
 * `renew`: replaces key and certificate in one step, and rolls back if the config does not validate with them. After any failure the previous
 * credentials stay in use. Safe to repeat, and safe while `run` runs.
 */
export const renewCommand = defineCommand({
  usage: `  --out <dir>          instead of --config: what enroll --agent opamp wrote; renews only when it is due
  --config <path>      the config (default ${defaultConfigPath})
  --core <https URL>   default management.core_url; core's ingest listener serves renewals too
  --ca-bundle <path>   authorities of that server (default management.ca_file, else the system's)
  --json               one JSON object on stdout
`,
  flags: { out: "text", config: "text", core: "text", "ca-bundle": "text" },
  run: async (flags, env, progress) => {
    const { out: supervised } = flags;
    if (supervised !== undefined && flags.config !== undefined)
      throw usageFailure("--out takes the place of --config");
    const path = supervised === undefined ? flags.config : join(supervised, renewalFile);
    const loaded = await loadUsableConfig(path, env);
    const transport = {
      ...(await chooseTransport(loaded, flags.core, flags["ca-bundle"])),
      proxy: { setting: loaded.config.proxy, variables: env.variables },
    };
    const directory = openIdentityDirectory(identityDirectoryFor(loaded.config), env);
    const dueAt = supervised === undefined ? undefined : await directory.renewAfter();
    if (dueAt !== undefined && dueAt > env.clock.now()) return notDue(dueAt);
    try {
      progress(`requesting a successor of the certificate from ${transport.baseUrl}`);
      const { identity, certificate } = await renewCredentials({
        configPath: loaded.path,
        directory,
        inUse: loaded.credentials,
        transport,
        env,
        retry: (call) => retryCall(env.clock, call, reportRetry(progress)),
      });
      return {
        exitCode: exitCode.done,
        lines: [
          `renewed; the new certificate is valid until ${certificate.validToDate.toISOString()}`,
          "a running collector starts to use it within seconds",
        ],
        json: { ok: true, identity, certificate: describeCertificate(certificate) },
      };
    } catch (error) {
      if (error instanceof CredentialsRejectedByConfigError) throw configFailure(error.loaded);
      throw asCommandFailure(error);
    }
  },
});

const notDue = (dueAt: number): CommandOutcome => {
  const renewAfter = new Date(dueAt).toISOString();
  return {
    exitCode: exitCode.done,
    lines: [`the certificate is not due before ${renewAfter}; it is kept`],
    json: { ok: true, renewed: false, renew_after: renewAfter },
  };
};

const chooseTransport = async (
  { config, trust }: UsableConfig,
  core: string | undefined,
  bundle: string | undefined,
): Promise<TransportOptions> => {
  const baseUrl = core === undefined ? config.management.coreUrl : readCoreUrl(core, false).coreUrl;
  if (baseUrl === undefined)
    throw usageFailure("--core is required, as the config has no management.core_url");
  const { management } = trust;
  const configured = management && { inOrder: () => authoritiesOf(management) };
  const caPem = bundle === undefined ? configured : await readBundle("ca-bundle", bundle);
  // `management.server_name` is the name of the server that `management.core_url` names.
  return {
    baseUrl,
    caPem,
    serverName: core === undefined ? config.management.serverName : undefined,
    timeoutMs: renewTimeoutMs,
  };
};
