import { constants } from "node:fs";
import { open, stat } from "node:fs/promises";
import { dirname, isAbsolute, resolve } from "node:path";
import { errorCode } from "#kit/describe-error.ts";
import {
  type CollectorConfig,
  type SourceConfig,
  validateCollectorConfig,
} from "#proto/collector-config/parse.ts";
import { rootAcknowledgement } from "#proto/collector-config/schema.ts";
import {
  anyTokens,
  type ConfigTextError,
  configBytesMax,
  hashTree,
  type ParsedTree,
  parseTree,
  type TreePath,
} from "#proto/collector-config/tree.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { readProxyAuthorities, readProxyCredentials } from "../connect/tunnel.ts";
import { readPrivateText, readTrustedText, UnsafeFileError } from "../files/private-files.ts";
import {
  bundleDirectoryOf,
  readStoredBundle,
  type ServerTrust,
} from "../identity/channel-trust.ts";
import {
  type Credentials,
  CredentialsError,
  joinCredentials,
  readableCertificates,
  readPemCertificate,
} from "../identity/credentials.ts";
import { identityDirectoryOf } from "../identity/identity-directory.ts";
import { compilePattern } from "../sources/file/multiline.ts";
import type { SourceSettings } from "../sources/source.ts";
import { isInsideRoots } from "./desired-rules.ts";

/** The config without `--config`. */
export const defaultConfigPath = "/etc/svc-collector/collector.yaml";

/** A config file with what it names, as far as it could be read. It is usable if `errors` is empty. */
export interface LoadedConfig {
  /** The absolute path of the file. */
  path: string;
  errors: ConfigTextError[];
  /** Whether the disk returned an error for one of the files: the next attempt may read it. */
  isUnreadable?: boolean;
  /** Null if the text is not one well-formed document. */
  runningConfigHash: string | null;
  /** With absolute paths; undefined if the text is invalid. */
  config?: CollectorConfig;
  /** Locates what is said of this config in its text. */
  errorAt?: ParsedTree["errorAt"];
  /** Undefined if it could not be read. */
  certificate?: ReturnType<typeof readPemCertificate>;
  /** Undefined unless certificate and key are usable and the identity is the configured one. */
  credentials?: Credentials;
  /** The authorities of each channel; none if its `ca_file` could not be read, and for `management` where those of the system verify core. */
  trust: { ingest?: ServerTrust; management?: ServerTrust };
}

/** A loaded config without errors. */
export type UsableConfig = LoadedConfig &
  Required<Pick<LoadedConfig, "config" | "certificate" | "credentials">> & {
    trust: { ingest: ServerTrust };
  };

/** Describes an error on one line: where in the file, which key, and what is expected. */
export const describeConfigError = ({ path, line, column, message }: ConfigTextError): string =>
  `${line}:${column} ${path === "" ? "" : `${path} `}${message}`;

/** Reports whether a config can run. */
export const isUsable = (loaded: LoadedConfig): loaded is UsableConfig =>
  loaded.errors.length === 0 &&
  loaded.config !== undefined &&
  loaded.credentials !== undefined &&
  loaded.trust.ingest !== undefined;

/**
 * Loads a config file: validates it (docs/collector-config.md) and checks it against this host. The files that it names exist and are
 * well-formed, the key is private and belongs to the certificate, `host_id` is the certificate's name, and running as root is
 * acknowledged. Relative paths start at the file's directory. Changes nothing, takes no lock and never throws. Messages contain neither
 * a value nor the path of a file.
 */
export const loadConfig = async (
  path: string | undefined,
  { effectiveUid }: { effectiveUid: number | undefined },
): Promise<LoadedConfig> => {
  const loaded: LoadedConfig = {
    path: resolve(path ?? defaultConfigPath),
    errors: [],
    runningConfigHash: null,
    trust: {},
  };
  const text = await readConfigText(loaded);
  if (text === undefined) return loaded;
  const tree = parseTree(text, anyTokens);
  loaded.runningConfigHash = await hashTree(tree);
  const parsed = validateCollectorConfig(tree);
  if (!parsed.ok) return { ...loaded, errors: parsed.errors };

  const config = resolvePaths(parsed.config, dirname(loaded.path));
  loaded.config = config;
  loaded.errorAt = parsed.errorAt;
  const reject: Reject = (at, fault) => {
    const message = typeof fault === "string" ? fault : describeFault(loaded, fault);
    loaded.errors.push(parsed.errorAt(at, message));
  };
  if (effectiveUid === 0 && !config.runAsRootAcknowledged)
    reject(
      ["run_as_root_acknowledged"],
      `must be ${rootAcknowledgement} when the collector runs as root`,
    );
  await loadCredentials(loaded, config, reject);
  await loadAuthorities(loaded, config, reject);
  await checkProxyFiles(config, reject);
  await checkBuffer(config, reject);
  checkFilePatterns(loaded.path, config, reject);
  await checkTlsFiles(config, reject);
  await checkLinePatterns(config, reject);
  return loaded;
};

/** Adds an error at a path of the config: its message, or what was thrown for a file. */
type Reject = (path: TreePath, fault: unknown) => void;

/** Reads the text of a config; undefined, with the error in `loaded`, if it cannot. */
const readConfigText = async (loaded: LoadedConfig): Promise<string | undefined> => {
  const { path } = loaded;
  const reject = (message: string) =>
    void loaded.errors.push({ path: "", line: 1, column: 1, message: `the config ${message}` });
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const status = await handle.stat();
      if (!status.isFile()) return reject("is not a regular file");
      // Its group may write it, as one that administers hosts together may.
      if (process.platform !== "win32" && (status.mode & 0o002) !== 0)
        return reject("may be written by others; set its mode to 0644");
      if (status.size > configBytesMax) return reject(`must be at most ${configBytesMax} bytes`);
      return new TextDecoder("utf-8", { fatal: true }).decode(await handle.readFile());
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof TypeError) return reject("is not UTF-8 text");
    // The path of --config may be something else by mistake, and is not repeated.
    const known = path === defaultConfigPath ? `${path} ` : "";
    return reject(`${known}${describeFault(loaded, error)}`);
  }
};

const readFaults = new Map([
  ["ENOENT", "does not exist"],
  ["ENOTDIR", "does not exist"],
  ["EACCES", "may not be read by this user"],
  ["EPERM", "may not be read by this user"],
]);

/** Describes why a file that a config names cannot be used, and notes in `loaded` an error of the disk. */
const describeFault = (loaded: LoadedConfig, error: unknown): string => {
  if (error instanceof CredentialsError || error instanceof UnsafeFileError) return error.message;
  const known = readFaults.get(errorCode(error) ?? "");
  loaded.isUnreadable ||= known === undefined;
  return known ?? "cannot be read";
};

const resolvePaths = (config: CollectorConfig, base: string): CollectorConfig => {
  const absolute = (path: string) => (isAbsolute(path) ? path : resolve(base, path));
  const optional = (path: string | undefined) => (path === undefined ? undefined : absolute(path));
  const { forwarder, buffer, proxy, management } = config;
  const { mtls } = forwarder;
  return {
    ...config,
    sources: config.sources.map((source) => resolveSource(source, absolute)),
    forwarder: {
      ...forwarder,
      mtls: {
        ...mtls,
        certFile: absolute(mtls.certFile),
        keyFile: absolute(mtls.keyFile),
        caFile: absolute(mtls.caFile),
      },
    },
    buffer: { ...buffer, dir: absolute(buffer.dir) },
    proxy:
      typeof proxy === "object"
        ? {
            ...proxy,
            credentialsFile: optional(proxy.credentialsFile),
            caFile: optional(proxy.caFile),
          }
        : proxy,
    management: { ...management, caFile: optional(management.caFile) },
  };
};

const resolveSource = (source: SourceConfig, absolute: (path: string) => string): SourceConfig => {
  if (source.type === "file")
    return {
      ...source,
      include: source.include.map(absolute),
      exclude: source.exclude.map(absolute),
    };
  if (source.type !== "syslog" || source.tcp?.tls === undefined) return source;
  const { certFile, keyFile, clientCaFile } = source.tcp.tls;
  const tls = {
    certFile: absolute(certFile),
    keyFile: absolute(keyFile),
    ...(clientCaFile !== undefined && { clientCaFile: absolute(clientCaFile) }),
  };
  return { ...source, tcp: { ...source.tcp, tls } };
};

const mtlsPath = ["forwarder", "mtls"] as const;

const loadCredentials = async (
  loaded: LoadedConfig,
  config: CollectorConfig,
  reject: Reject,
): Promise<void> => {
  const { certFile, keyFile } = config.forwarder.mtls;
  const rejectPart = (part: "certificate" | "key", error: unknown) =>
    reject([...mtlsPath, part === "key" ? "key_file" : "cert_file"], error);
  const [certificatePem, keyPem] = await Promise.allSettled([
    readTrustedText(certFile),
    readPrivateText(keyFile),
  ]);
  if (certificatePem.status === "rejected") rejectPart("certificate", certificatePem.reason);
  if (keyPem.status === "rejected") rejectPart("key", keyPem.reason);
  if (certificatePem.status === "rejected") return;
  try {
    const certificate = readPemCertificate(certificatePem.value);
    loaded.certificate = certificate;
    if (config.hostId !== undefined && config.hostId !== certificate.identity)
      return reject(["host_id"], "must equal the name in the certificate, byte for byte");
    if (keyPem.status === "fulfilled")
      loaded.credentials = joinCredentials(certificatePem.value, keyPem.value);
  } catch (error) {
    rejectPart(error instanceof CredentialsError ? error.part : "certificate", error);
  }
};

const loadAuthorities = async (
  loaded: LoadedConfig,
  config: CollectorConfig,
  reject: Reject,
): Promise<void> => {
  const bundles = bundleDirectoryOf(config);
  const load = async (channel: CaChannel, file: string | undefined, section: TreePath) => {
    if (file === undefined) return;
    const path = [...section, "ca_file"];
    try {
      const caFile = readableCertificates(await readTrustedText(file));
      if (caFile === "") return reject(path, "contains no PEM certificate");
      const stored = bundles === undefined ? {} : await readStoredBundle(bundles, channel);
      loaded.trust[channel] = { caFile, ...stored };
    } catch (error) {
      reject(path, error);
    }
  };
  await load("ingest", config.forwarder.mtls.caFile, mtlsPath);
  await load("management", config.management.caFile, ["management"]);
};

/** Rejects files of the proxy that cannot be used now; each connection reads them anew. */
const checkProxyFiles = async ({ proxy }: CollectorConfig, reject: Reject): Promise<void> => {
  if (typeof proxy !== "object") return;
  const { credentialsFile, caFile } = proxy;
  if (credentialsFile !== undefined)
    await readProxyCredentials(credentialsFile).catch((error) =>
      reject(["proxy", "credentials_file"], error),
    );
  if (caFile !== undefined)
    await readProxyAuthorities(caFile).catch((error) => reject(["proxy", "ca_file"], error));
};

/** Rejects files of a `syslog` source's TLS that cannot be read. */
const checkTlsFiles = async ({ sources }: CollectorConfig, reject: Reject): Promise<void> => {
  for (const [index, source] of sources.entries()) {
    if (source.type !== "syslog" || source.tcp?.tls === undefined) continue;
    const { certFile, keyFile, clientCaFile } = source.tcp.tls;
    const check = (key: string, read: Promise<string>) =>
      read.catch((error) => reject(["sources", index, "tcp", "tls", key], error));
    await check("cert_file", readTrustedText(certFile));
    await check("key_file", readPrivateText(keyFile));
    if (clientCaFile !== undefined) await check("client_ca_file", readTrustedText(clientCaFile));
  }
};

const checkBuffer = async ({ buffer }: CollectorConfig, reject: Reject): Promise<void> => {
  try {
    if (!(await stat(buffer.dir)).isDirectory()) reject(["buffer", "dir"], "is not a directory");
  } catch (error) {
    if (readFaults.get(errorCode(error) ?? "") !== "does not exist")
      reject(["buffer", "dir"], error);
  }
};

/** Returns the collector's own files and directories, from which no source may read. */
const ownPaths = ({ path, config }: Pick<UsableConfig, "path" | "config">): string[] => {
  const { certFile, keyFile } = config.forwarder.mtls;
  const identity = identityDirectoryOf(config) ?? [];
  const directories = [path, certFile, keyFile].map(dirname);
  return [
    ...new Set([path, certFile, keyFile, ...directories, ...[identity].flat(), config.buffer.dir]),
  ];
};

/**
 * Returns what the sources of a loaded config run with. Where core may assign configs, a source whose patterns are all inside
 * `file_roots` reads only there, also through links: it may come from core. Any other source can only be this host's own.
 */
export const sourceSettings = (loaded: Pick<UsableConfig, "path" | "config">): SourceSettings[] => {
  const { sources, processors, management } = loaded.config;
  const { applyDesiredConfig, fileRoots } = management;
  const neverRead = ownPaths(loaded);
  return sources.map((own) => {
    const source = { ...own, processors: [...processors, ...(own.processors ?? [])] };
    if (source.type !== "file") return source;
    const isConfined = applyDesiredConfig && isInsideRoots(source.include, fileRoots);
    return { ...source, rules: { neverRead, ...(isConfined ? { roots: fileRoots } : {}) } };
  });
};

/** Rejects expressions that the engine does not compile. */
const checkLinePatterns = async (config: CollectorConfig, reject: Reject): Promise<void> => {
  for (const [at, pattern] of linePatterns(config))
    await compilePattern(pattern).catch(() =>
      reject(at, "must be an RE2 expression of at most 1000 instructions"),
    );
};

/** Returns the expressions of a config, each with its path. */
const linePatterns = ({ sources, processors }: CollectorConfig): [TreePath, string][] => {
  const ofRules = (at: TreePath, rules: typeof processors) =>
    rules.flatMap(({ redact }, rule) =>
      (redact?.patterns ?? []).map((pattern, index): [TreePath, string] => [
        [...at, rule, "redact", "patterns", index],
        pattern,
      ]),
    );
  const ofSource = (source: SourceConfig, index: number): [TreePath, string][] => {
    const { startPattern, endPattern } = (source.type === "file" && source.multiline) || {};
    const at = ["sources", index, "multiline"];
    return [
      ...ofRules(["sources", index, "processors"], source.processors ?? []),
      ...(startPattern === undefined ? [] : [[[...at, "start_pattern"], startPattern] as const]),
      ...(endPattern === undefined ? [] : [[[...at, "end_pattern"], endPattern] as const]),
    ].map(([path, pattern]) => [path, pattern]);
  };
  return [...ofRules(["processors"], processors), ...sources.flatMap(ofSource)];
};

/** Rejects patterns that can match nothing but the collector's own files, which no source reads. */
const checkFilePatterns = (path: string, config: CollectorConfig, reject: Reject): void => {
  const own = ownPaths({ path, config }).map((entry) =>
    entry.endsWith("/") ? entry : `${entry}/`,
  );
  for (const [source, entry] of config.sources.entries()) {
    if (entry.type !== "file") continue;
    for (const [index, pattern] of entry.include.entries())
      if (own.some((directory) => pattern.startsWith(directory)))
        reject(
          ["sources", source, "include", index],
          "must be outside the directories of the config, from which relative paths start, the identity and the buffer; `~` and variables are not expanded",
        );
  }
};
