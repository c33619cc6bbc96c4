import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { errorCode } from "#kit/describe-error.ts";
import type { Secret } from "#kit/secret.ts";
import { rootAcknowledgement } from "#proto/collector-config/schema.ts";
import { otlpGrpcListen, otlpHttpListen } from "#proto/collector-config/sources.ts";
import type { CertificateIssued } from "#proto/management/enroll.ts";
import { defaultConfigPath, loadConfig } from "../config/load-config.ts";
import { unusedProxy } from "../connect/proxy.ts";
import type { CollectorEnv } from "../env.ts";
import { makeOwnDirectory, writeDurably } from "../files/private-files.ts";
import { CredentialsError, describeCertificate } from "../identity/credentials.ts";
import {
  credentialFiles,
  type IdentityDirectory,
  openIdentityDirectory,
} from "../identity/identity-directory.ts";
import {
  removeStoredBundles,
  replaceAuthorities,
  writeStoredBundle,
} from "../identity/take-bundle.ts";
import { callEnroll } from "../management/calls.ts";
import { retryCall } from "../management/retry-call.ts";
import { queueFiles } from "../queue/format.ts";
import { version } from "../version.ts";
import {
  type CommandOutcome,
  commandFailure,
  configFailure,
  defineCommand,
  exitCode,
} from "./command.ts";
import { asCommandFailure, reportRetry } from "./core-failure.ts";
import { type EnrollOptions, enrollFlags, readEnrollOptions, readToken } from "./enroll-options.ts";
import { writeSupervisedAgent } from "./supervised-agent.ts";

/** Core may wait 30 s for an external signer. */
const timeoutMs = 45_000;

/**
 * `enroll`: creates a key on this host, requests a certificate for it with a bootstrap token or a service account token, writes the config
 * and validates it. Safe to repeat at any point: the key is on disk before the request, and an existing identity or config is kept and uses
 * no token. `--reenroll` requests a new certificate for the same identity. `--force` replaces identity and config, and leaves the previous
 * config beside the new one.
 */
export const enrollCommand = defineCommand({
  usage: `  --agent opamp                 enroll for an agent that speaks OpAMP, and write its supervisor's config
  --out <dir>                   where to, instead of --config-dir and --data-dir
  --otelcol <path>              that agent's binary (default /usr/bin/otelcol-contrib)
  --core <https URL>            core's base URL, without /v1
  --ingest <host:port>          core's ingest listener
  --token-file <path>           the bootstrap token; delete the file afterwards
  --token-stdin                 read the bootstrap token from stdin instead
  --service-account-token-file <path>
                                in Kubernetes: the pod's projected token instead
  --device-id <id>              this host's id under the prefix
  --identity-prefix <URI/>      an allowed prefix of the enrollment policy
  --ca-bundle <path>            authorities of core's certificate, and of ingest by default
  --ingest-ca-bundle <path>     authorities of the ingest listener's certificate
  --proxy <URL>                 reach core through this CONNECT proxy, also later; or: environment
  --proxy-credentials-file <path>
                                user:password for it; mode 0600
  --proxy-ca-file <path>        authorities of an https:// proxy's certificate
  --no-proxy <list>             hosts, domains and CIDR blocks that are reached directly
  --allow-root-acknowledged I-UNDERSTAND-ROOT-MODE
                                required if the collector will run as root
  --config-dir <path>           default /etc/svc-collector
  --data-dir <path>             default /var/lib/svc-collector, or data inside a given --config-dir
  --reenroll                    request a new certificate for this host's identity; keep queue and config
  --force                       replace an existing identity and config
  --insecure-loopback-http      allow http:// to a loopback address (development)
  --json                        one JSON object on stdout
`,
  flags: enrollFlags,
  run: async (flags, env, progress) => {
    const options = await readEnrollOptions(flags, env);
    const identityDirectory = openIdentityDirectory(options.paths.identity, env);
    try {
      await mkdir(options.paths.configDir, { recursive: true });
      // Before the token is used: an unusable directory must not cost a token.
      await makeOwnDirectory(options.paths.data, Object.values(queueFiles("")));
      return await identityDirectory.locked(async () => {
        const existing = await readExisting(options.paths.config);
        const kept = await keepsIdentity(identityDirectory, options, env);
        if (!kept)
          await obtainCredentials(
            identityDirectory,
            options,
            await readToken(flags, env),
            env,
            progress,
          );
        const configKept = await writeFiles(options, existing, env);
        if (!configKept) await removeStoredBundles(options.paths.identity);
        else if (options.reenroll) await replaceTrust(options, env);
        return describe(options, env, {
          kept,
          configKept,
          tokenFile: flags["token-file"] !== undefined,
        });
      });
    } catch (error) {
      throw asCommandFailure(error);
    }
  },
});

/** Reports whether to keep the existing credentials. Throws for another identity, which only `--force` replaces. */
const keepsIdentity = async (
  directory: IdentityDirectory,
  { identity, force, reenroll, attested }: EnrollOptions,
  { clock }: Pick<CollectorEnv, "clock">,
) => {
  if (force) return false;
  const current = await directory.current().catch((cause: unknown) => {
    if (!(cause instanceof CredentialsError || errorCode(cause) === "ENOENT")) throw cause;
    // `--reenroll` names the identity, and a pod's token proves it: damaged credentials can be replaced.
    if (reenroll || attested) return undefined;
    const message =
      "the credentials of this host are damaged, and are kept; --reenroll requests new ones";
    throw commandFailure("identity_damaged", message, { cause });
  });
  if (current === undefined) return false;
  if (current.identity !== identity)
    throw commandFailure(
      "identity_exists",
      "this host is enrolled under another identity, which is kept; --force replaces it",
    );
  if (reenroll) return false;
  if (current.certificate.validToDate.getTime() > clock.now()) return true;
  if (attested) return false;
  throw commandFailure(
    "certificate_expired",
    "this host is enrolled, and its certificate has expired; --reenroll requests a new one",
  );
};

const obtainCredentials = async (
  directory: IdentityDirectory,
  options: EnrollOptions,
  token: Secret,
  env: CollectorEnv,
  progress: (line: string) => void,
) => {
  const request = await directory.prepare({
    purpose: "enroll",
    identity: options.identity,
    certificateSha256: "",
  });
  const proxy = { setting: options.proxy, variables: env.variables };
  const note = unusedProxy(proxy);
  if (note !== null) progress(`${note}; --proxy environment uses it`);
  progress(`created a key on this host; requesting a certificate from ${options.coreUrl}`);
  const call = () =>
    callEnroll(
      {
        baseUrl: options.coreUrl,
        caPem: options.coreCaPem,
        serverName: undefined,
        timeoutMs,
        proxy,
      },
      token,
      {
        csr_pem: request.csrPem,
        device_id: options.deviceId,
        ...(env.hostname === "" ? {} : { hostname: env.hostname }),
        platform: env.platform,
        collector_version: version,
        agent: options.agent,
      },
    );
  const issued: CertificateIssued = await retryCall(env.clock, call, reportRetry(progress));
  const { checkIssued } = await import("../identity/request-certificate.ts");
  await directory.install({
    purpose: "enroll",
    certificatePem: await checkIssued(issued, options.identity),
    renewAfter: issued.renew_after,
  });
};

/** Writes bundles and config. Returns whether the existing config, if any, is kept. */
const writeFiles = async (
  options: EnrollOptions,
  existing: string | undefined,
  env: CollectorEnv,
) => {
  const { paths, coreCaPem, ingestCaPem } = options;
  if (existing !== undefined && !options.force) return true;
  if (existing !== undefined)
    await writeDurably(`${paths.config}.before-enroll`, existing, env, 0o644);
  if (coreCaPem !== undefined) await writeDurably(paths.coreCa, coreCaPem, env, 0o644);
  const isShared = ingestCaPem === coreCaPem;
  if (!isShared) await writeDurably(paths.ingestCa, ingestCaPem, env, 0o644);
  await writeDurably(
    paths.config,
    generateConfig(options, isShared ? paths.coreCa : paths.ingestCa),
    env,
    0o644,
  );
  return false;
};

/** Makes the given authorities those of the channels of a config that is kept, until core publishes others. */
const replaceTrust = async (
  { paths, ingestCaPem, coreCaPem }: EnrollOptions,
  env: CollectorEnv,
) => {
  const { ingest, management } = (await loadConfig(paths.config, env)).trust;
  if (ingest !== undefined)
    await writeStoredBundle(paths.identity, "ingest", replaceAuthorities(ingest, ingestCaPem), env);
  if (management !== undefined && coreCaPem !== undefined) {
    const bundle = replaceAuthorities(management, coreCaPem);
    await writeStoredBundle(paths.identity, "management", bundle, env);
  }
};

/** Returns the text of the existing config, if any. Throws if it cannot be read, because it must not be replaced. */
const readExisting = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    if (errorCode(cause) === "ENOENT") return undefined;
    const message =
      "the existing config cannot be read, and is kept: make it readable by this user, or remove it";
    throw commandFailure("config_unreadable", message, { cause });
  }
};

const configHeader = `# Written by svc-collector enroll. It contains no secret. Every key: docs/collector-config.md
# After a change, check it with svc-collector validate-config.
`;

/** Returns the YAML of a new config: without `host_id` and with fixed paths, so that one text fits every host with the same directories. */
const generateConfig = (
  { paths, coreUrl, insecure, coreCaPem, ingest, proxy, runAsRootAcknowledged }: EnrollOptions,
  ingestCaFile: string,
) =>
  configHeader +
  stringify(
    {
      ...(runAsRootAcknowledged ? { run_as_root_acknowledged: rootAcknowledgement } : {}),
      sources: [
        { type: "otlp", grpc: { listen: otlpGrpcListen }, http: { listen: otlpHttpListen } },
      ],
      forwarder: {
        endpoint: ingest,
        mtls: {
          cert_file: join(paths.identity, "current", credentialFiles.certificate),
          key_file: join(paths.identity, "current", credentialFiles.key),
          ca_file: ingestCaFile,
        },
      },
      buffer: { dir: paths.data },
      ...(proxy === undefined ? {} : { proxy: proxyText(proxy) }),
      // Heartbeats need TLS, which an enrollment over plain HTTP does not have.
      ...(insecure
        ? {}
        : {
            management: {
              core_url: coreUrl,
              ...(coreCaPem === undefined ? {} : { ca_file: paths.coreCa }),
            },
          }),
    },
    { lineWidth: 0 },
  );

const proxyText = (proxy: NonNullable<EnrollOptions["proxy"]>) =>
  proxy === "environment"
    ? proxy
    : {
        url: proxy.url,
        ...(proxy.credentialsFile && { credentials_file: proxy.credentialsFile }),
        ...(proxy.noProxy.length > 0 && { no_proxy: proxy.noProxy }),
        ...(proxy.caFile && { ca_file: proxy.caFile }),
      };

const describe = async (
  options: EnrollOptions,
  env: CollectorEnv,
  done: { kept: boolean; configKept: boolean; tokenFile: boolean },
): Promise<CommandOutcome> => {
  const loaded = await loadConfig(options.paths.config, env);
  if (loaded.errors.length > 0) throw configFailure(loaded);
  const run = `svc-collector run --config ${options.paths.config}`;
  const isPackaged = options.paths.config === defaultConfigPath;
  const packaged = "sudo systemctl start svc-collector, or without the package ";
  const supervised =
    options.agent === "svc-collector" ? [] : await writeSupervisedAgent(options, env);
  const next = [
    ...(done.tokenFile ? ["delete the token file"] : []),
    ...(options.reenroll && loaded.config?.management.caPinned
      ? ["management.ca_pinned is true: put the authorities that you gave into ca_file"]
      : []),
    ...(options.agent === "svc-collector"
      ? [`start it: ${isPackaged ? packaged : ""}${run}`]
      : supervised),
  ];
  return {
    exitCode: exitCode.done,
    lines: [
      done.kept
        ? `already enrolled as ${options.identity}; the identity is kept`
        : `enrolled as ${options.identity}`,
      ...(done.configKept ? ["the existing config is kept; it is valid"] : []),
      ...next.map((step) => `next: ${step}`),
    ],
    json: {
      ok: true,
      identity: options.identity,
      identity_kept: done.kept,
      config_kept: done.configKept,
      config: options.paths.config,
      certificate: loaded.credentials && describeCertificate(loaded.credentials.certificate),
      next,
    },
  };
};
