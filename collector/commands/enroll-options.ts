import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isLoopbackHost } from "#kit/confidential-url.ts";
import { errorCode, fileFault } from "#kit/describe-error.ts";
import { Secret } from "#kit/secret.ts";
import type { CollectorConfig } from "#proto/collector-config/parse.ts";
import { isProxyUrl, proxyUrlForm, rootAcknowledgement } from "#proto/collector-config/schema.ts";
import { hostPortForm, splitHostPort } from "#proto/collector-config/sources.ts";
import { composeIdentity } from "#proto/identity.ts";
import type { AgentKind } from "#proto/values.ts";
import type { CollectorEnv } from "../env.ts";
import { readTrustedText, UnsafeFileError } from "../files/private-files.ts";
import { readableCertificates } from "../identity/credentials.ts";
import {
  CommandFailure,
  commandFailure,
  exitCode,
  type FlagValues,
  usageFailure,
} from "./command.ts";

/** The config for `svc-collector renew --out`, which alone reads it. */
export const renewalFile = "renewal.yaml";

/** The flags of `enroll` (docs/enroll.md). */
export const enrollFlags = {
  agent: "text",
  out: "text",
  otelcol: "text",
  core: "text",
  ingest: "text",
  "token-file": "text",
  "token-stdin": "switch",
  "service-account-token-file": "text",
  "device-id": "text",
  "identity-prefix": "text",
  "ca-bundle": "text",
  "ingest-ca-bundle": "text",
  proxy: "text",
  "proxy-credentials-file": "text",
  "proxy-ca-file": "text",
  "no-proxy": "text",
  "allow-root-acknowledged": "text",
  "config-dir": "text",
  "data-dir": "text",
  reenroll: "switch",
  force: "switch",
  "insecure-loopback-http": "switch",
} as const;

/** The options of an enrollment, checked as far as that is possible without core. Paths are absolute. */
export interface EnrollOptions {
  agent: AgentKind;
  /** The binary that a supervisor starts. */
  otelcol: string;
  coreUrl: string;
  /** `core` is plain HTTP on a loopback address. */
  insecure: boolean;
  ingest: string;
  deviceId: string;
  identity: string;
  /** Texts of the bundles. */
  coreCaPem: string | undefined;
  ingestCaPem: string;
  /** How core is reached now, and by the config that is written. */
  proxy: CollectorConfig["proxy"];
  runAsRootAcknowledged: boolean;
  paths: {
    configDir: string;
    config: string;
    identity: string;
    coreCa: string;
    ingestCa: string;
    data: string;
  };
  /** Requests a new certificate for the same identity, and keeps the config. */
  reenroll: boolean;
  /** Replaces another identity, and the config. */
  force: boolean;
  /** Enrolls with a service account token, which Kubernetes renews, so that an expired certificate needs no operator. */
  attested: boolean;
}

/** Checks the flags of `enroll` and reads the bundles. Throws a usage failure, or a config failure if root is not acknowledged. */
export const readEnrollOptions = async (
  flags: FlagValues<typeof enrollFlags>,
  env: Pick<CollectorEnv, "effectiveUid">,
): Promise<EnrollOptions> => {
  const required = (name: "core" | "ingest" | "device-id" | "identity-prefix") => {
    const value = flags[name];
    if (value === undefined) throw usageFailure(`--${name} is required`);
    return value;
  };
  const core = readCoreUrl(required("core"), flags["insecure-loopback-http"]);
  const ingest = required("ingest");
  if ((splitHostPort(ingest)?.port ?? 0) === 0) throw usageFailure(`--ingest ${hostPortForm}`);
  const attested = flags["service-account-token-file"] !== undefined;
  if (
    [flags["token-file"] !== undefined, flags["token-stdin"], attested].filter(Boolean).length !== 1
  )
    throw usageFailure(
      "exactly one of --token-file, --token-stdin and --service-account-token-file is required",
    );
  if (flags.force && flags.reenroll)
    throw usageFailure("--force replaces what --reenroll keeps: give one of them");
  const deviceId = required("device-id");
  const agent = readAgent(flags);
  const acknowledgement = flags["allow-root-acknowledged"];
  if (agent === "svc-collector") checkRoot(acknowledgement, env.effectiveUid);
  const { "ca-bundle": coreBundle, "ingest-ca-bundle": ingestBundle } = flags;
  const coreCaPem =
    coreBundle === undefined ? undefined : await readBundle("ca-bundle", coreBundle);
  const ingestCaPem =
    ingestBundle === undefined ? coreCaPem : await readBundle("ingest-ca-bundle", ingestBundle);
  if (ingestCaPem === undefined)
    throw usageFailure("--ca-bundle or --ingest-ca-bundle is required");
  const { out } = flags;
  return {
    ...core,
    agent,
    otelcol: flags.otelcol ?? "/usr/bin/otelcol-contrib",
    ingest,
    deviceId,
    identity: readIdentity(required("identity-prefix"), deviceId),
    coreCaPem,
    ingestCaPem,
    proxy: readProxy(flags),
    runAsRootAcknowledged: acknowledgement !== undefined || out !== undefined,
    paths:
      out === undefined
        ? enrollPaths(flags["config-dir"], flags["data-dir"])
        : { ...enrollPaths(out, join(out, "supervisor")), config: join(resolve(out), renewalFile) },
    reenroll: flags.reenroll,
    force: flags.force,
    attested,
  };
};

/** Returns which agent will use the certificate. */
const readAgent = ({
  agent = "svc-collector",
  out,
  otelcol,
  "config-dir": configDir,
  "data-dir": dataDir,
}: Partial<FlagValues<typeof enrollFlags>>): AgentKind => {
  if (agent !== "svc-collector" && agent !== "opamp")
    throw usageFailure("--agent must be svc-collector or opamp");
  const isOurs = agent === "svc-collector";
  if (isOurs ? (out ?? otelcol) !== undefined : out === undefined)
    throw usageFailure("--agent opamp needs --out; --out and --otelcol need --agent opamp");
  if (!isOurs && (configDir ?? dataDir) !== undefined)
    throw usageFailure("--out takes the place of --config-dir and --data-dir");
  return isOurs ? agent : "otelcol";
};

/** Returns the paths that `enroll` writes; without flags, those to which the packaged unit gives access. */
export const enrollPaths = (
  configDirFlag: string | undefined,
  dataDirFlag: string | undefined,
): EnrollOptions["paths"] => {
  const configDir = resolve(configDirFlag ?? "/etc/svc-collector");
  const defaultData =
    configDirFlag === undefined ? "/var/lib/svc-collector" : join(configDir, "data");
  return {
    configDir,
    config: join(configDir, "collector.yaml"),
    identity: join(configDir, "identity"),
    coreCa: join(configDir, "core-ca.pem"),
    ingestCa: join(configDir, "ingest-ca.pem"),
    data: resolve(dataDirFlag ?? defaultData),
  };
};

/** Parses a base URL of core: https, or http on a loopback address if `allowLoopbackHttp`. Throws a usage failure. */
export const readCoreUrl = (
  text: string,
  allowLoopbackHttp: boolean,
): { coreUrl: string; insecure: boolean } => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (
    url === undefined ||
    url.username !== "" ||
    url.password !== "" ||
    text.includes("?") ||
    text.includes("#")
  )
    throw usageFailure("--core must be a URL without credentials, query or fragment");
  const coreUrl = `${url.origin}${url.pathname.replace(/(?<!\/)\/+$/, "")}`;
  if (url.protocol === "https:") return { coreUrl, insecure: false };
  if (url.protocol === "http:" && allowLoopbackHttp && isLoopbackHost(url.hostname))
    return { coreUrl, insecure: true };
  throw usageFailure(
    allowLoopbackHttp
      ? "--core must be https://, or http:// on 127.0.0.0/8, ::1 or localhost"
      : "--core must be https:// (http:// needs --insecure-loopback-http and a loopback address)",
  );
};

const readProxy = ({
  proxy,
  "proxy-credentials-file": credentialsFile,
  "proxy-ca-file": caFile,
  "no-proxy": noProxy = "",
}: Partial<FlagValues<typeof enrollFlags>>): EnrollOptions["proxy"] => {
  const more = [credentialsFile, caFile, noProxy].some(Boolean);
  if (more && (proxy === undefined || proxy === "environment"))
    throw usageFailure(
      "--proxy-credentials-file, --proxy-ca-file and --no-proxy need a --proxy URL",
    );
  if (proxy === undefined || proxy === "environment") return proxy;
  if (!isProxyUrl(proxy)) throw usageFailure(`--proxy must be environment, or ${proxyUrlForm}`);
  return {
    url: proxy,
    credentialsFile: credentialsFile && resolve(credentialsFile),
    caFile: caFile && resolve(caFile),
    noProxy: noProxy.split(/[\s,]+/).filter(Boolean),
  };
};

const readIdentity = (prefix: string, deviceId: string) => {
  if (deviceId.length > 128 || !deviceId.isWellFormed() || /\p{Cc}/u.test(deviceId))
    throw usageFailure("--device-id must be 1 to 128 characters, none of them a control character");
  if (!URL.canParse(prefix) || !prefix.endsWith("/") || !/^[\x21-\x7e]+$/.test(prefix))
    throw usageFailure("--identity-prefix must be an absolute URI that ends in /");
  return composeIdentity(prefix, deviceId);
};

const checkRoot = (acknowledgement: string | undefined, effectiveUid: number | undefined) => {
  if (acknowledgement === rootAcknowledgement) return;
  if (acknowledgement === undefined && effectiveUid !== 0) return;
  throw new CommandFailure(
    exitCode.config,
    "config_invalid",
    acknowledgement === undefined
      ? `the collector would run as root; acknowledge it with --allow-root-acknowledged ${rootAcknowledgement}, or enroll as another user`
      : `the generated config would be invalid: --allow-root-acknowledged takes only ${rootAcknowledgement}`,
  );
};

/** Reads the PEM of authorities. Throws a command failure if it has none, cannot be read, or may be written by others. */
export const readBundle = async (name: string, path: string): Promise<string> => {
  const text = await readTrustedText(path).catch((error: unknown) => {
    const fault = error instanceof UnsafeFileError ? error.message : "cannot be read";
    throw commandFailure("file_unreadable", `the file of --${name} ${fault}`);
  });
  const pem = readableCertificates(text);
  if (pem === "")
    throw commandFailure("file_invalid", `the file of --${name} contains no PEM certificate`);
  return pem;
};

const tokenBytesMax = 4096;

/**
 * Reads the token from a file or from stdin, and trims white space. Throws for anything that does not look like one: a wrong path must not
 * send another secret to core. No message quotes it.
 */
export const readToken = async (
  flags: Partial<Pick<FlagValues<typeof enrollFlags>, "token-file" | "service-account-token-file">>,
  env: Pick<CollectorEnv, "stdin">,
): Promise<Secret> => {
  const attested = flags["service-account-token-file"];
  const path = attested ?? flags["token-file"];
  const text = path === undefined ? await readStdin(env) : await readTokenFile(path);
  const token = text.trim();
  const kind = attested === undefined ? "bootstrap" : "service account";
  const pattern = attested === undefined ? /^svcbt_[0-9A-Za-z]{49}$/ : /^[\w-]+\.[\w-]+\.[\w-]+$/;
  if (token.length > tokenBytesMax || !pattern.test(token))
    throw commandFailure("token_malformed", `this is not a ${kind} token; nothing was sent`);
  return new Secret(token);
};

/** Throws without naming the path, which may be a token that was given by mistake. */
const readTokenFile = (path: string): Promise<string> =>
  readFile(path, "utf8").catch((cause) => {
    const hint =
      errorCode(cause) === "EACCES" ? "; --token-stdin takes it from a user who can" : "";
    const fault = `the file of the token ${fileFault(cause)}${hint}`;
    throw commandFailure("file_unreadable", fault);
  });

const readStdin = async ({ stdin }: Pick<CollectorEnv, "stdin">) => {
  let text = "";
  for await (const chunk of stdin) {
    text += typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk);
    if (text.length > tokenBytesMax) break;
  }
  return text;
};
