import { constants } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
import { dirname, isAbsolute, resolve } from "node:path";
import { errorCode } from "../../kit/describe-error.ts";
import { configHash } from "../../proto/collector-config/hash.ts";
import { type CollectorConfig, parseCollectorConfig } from "../../proto/collector-config/parse.ts";
import { rootAcknowledgement } from "../../proto/collector-config/schema.ts";
import { type ConfigTextError, configBytesMax, type ParsedTree } from "../../proto/collector-config/tree.ts";
import { decodePemBundle } from "../../proto/pem.ts";
import { readPrivateText, UnsafeFileError } from "../files/private-files.ts";
import { type Credentials, CredentialsError, joinCredentials, readCertificate } from "../identity/credentials.ts";

/** Where a config is looked for without `--config`. */
export const defaultConfigPath = "/etc/svc-collector/collector.yaml";

/** Everything that could be learned of a config file, whatever is wrong with it. It is usable if `errors` is empty. */
export interface LoadedConfig {
  /** The absolute path of the file. */
  path: string;
  errors: ConfigTextError[];
  /** Null when the text is not one well-formed document. */
  runningConfigHash: string | null;
  /** With absolute paths; there when the text itself is valid. */
  config?: CollectorConfig;
  /** What the certificate says; there when it could be read. */
  certificate?: ReturnType<typeof readCertificate>;
  /** The certificate with its key; there when both are usable and the identity is the configured one. */
  pair?: Credentials;
  /** The text of `forwarder.mtls.ca_file` and of `management.ca_file`, when they could be read. */
  ingestCaPem?: string;
  coreCaPem?: string;
}

/** An loaded without faults. */
export type UsableConfig = LoadedConfig &
  Required<Pick<LoadedConfig, "config" | "certificate" | "pair" | "ingestCaPem">>;

/** Whether a config can be run. */
export const isUsable = (loaded: LoadedConfig): loaded is UsableConfig =>
  loaded.errors.length === 0 &&
  loaded.config !== undefined &&
  loaded.pair !== undefined &&
  loaded.ingestCaPem !== undefined;

/**
 * Reads a config file, validates it (contract §8) and checks it against this machine: the files it names exist and are what they
 * should be, the key is private and belongs to the certificate, `host_id` is the certificate's name, root is acknowledged.
 * Relative paths count from the file's directory. Changes nothing, takes no lock, never throws; messages hold no value and no
 * path of a file.
 */
export const loadConfig = async (
  path: string,
  { effectiveUid }: { effectiveUid: number | undefined },
): Promise<LoadedConfig> => {
  const loaded: LoadedConfig = { path: resolve(path), errors: [], runningConfigHash: null };
  const text = await readConfigText(loaded.path);
  if (typeof text !== "string") return { ...loaded, errors: [text] };
  loaded.runningConfigHash = await configHash(text);
  const parsed = parseCollectorConfig(text);
  if (!parsed.ok) return { ...loaded, errors: parsed.errors };

  const config = resolvePaths(parsed.config, dirname(loaded.path));
  const { errorAt } = parsed;
  loaded.config = config;
  if (effectiveUid === 0 && !config.runAsRootAcknowledged)
    loaded.errors.push(
      errorAt(["run_as_root_acknowledged"], `must be ${rootAcknowledgement} when the collector runs as root`),
    );
  await inspectPair(loaded, config, errorAt);
  await inspectAuthorities(loaded, config, errorAt);
  await inspectBuffer(loaded, config, errorAt);
  return loaded;
};

const wholeFile = (message: string): ConfigTextError => ({ path: "", line: 1, column: 1, message });

const readConfigText = async (path: string): Promise<string | ConfigTextError> => {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const status = await handle.stat();
      if (!status.isFile()) return wholeFile("the config is not a regular file");
      if (status.size > configBytesMax) return wholeFile(`the config must be at most ${configBytesMax} bytes`);
      return new TextDecoder("utf-8", { fatal: true }).decode(await handle.readFile());
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof TypeError) return wholeFile("the config is not UTF-8 text");
    return wholeFile(`the config ${reading(error)}`);
  }
};

const reading = (error: unknown): string => {
  const code = errorCode(error);
  if (code === "ENOENT" || code === "ENOTDIR") return "does not exist";
  if (code === "EACCES" || code === "EPERM") return "may not be read by this user";
  return "cannot be read";
};

const resolvePaths = (config: CollectorConfig, base: string): CollectorConfig => {
  const absolute = (path: string) => (isAbsolute(path) ? path : resolve(base, path));
  const { forwarder, buffer, management } = config;
  const { mtls } = forwarder;
  return {
    ...config,
    sources: config.sources.map((source) =>
      source.type === "file"
        ? { ...source, include: source.include.map(absolute), exclude: source.exclude.map(absolute) }
        : source,
    ),
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
    management: {
      ...management,
      caFile: management.caFile === undefined ? undefined : absolute(management.caFile),
    },
  };
};

type ErrorAt = ParsedTree["errorAt"];
const mtlsPath = ["forwarder", "mtls"] as const;

const inspectPair = async (loaded: LoadedConfig, config: CollectorConfig, errorAt: ErrorAt): Promise<void> => {
  const { certFile, keyFile } = config.forwarder.mtls;
  const refuse = (key: "cert_file" | "key_file", error: unknown) =>
    void loaded.errors.push(
      errorAt(
        [...mtlsPath, key],
        error instanceof CredentialsError || error instanceof UnsafeFileError ? error.message : reading(error),
      ),
    );
  const [certificatePem, keyPem] = await Promise.allSettled([readFile(certFile, "utf8"), readPrivateText(keyFile)]);
  if (certificatePem.status === "rejected") refuse("cert_file", certificatePem.reason);
  if (keyPem.status === "rejected") refuse("key_file", keyPem.reason);
  if (certificatePem.status === "rejected") return;
  try {
    const certificate = readCertificate(certificatePem.value);
    loaded.certificate = certificate;
    if (config.hostId !== undefined && config.hostId !== certificate.identity) {
      loaded.errors.push(errorAt(["host_id"], "must equal the name in the certificate, byte for byte"));
      return;
    }
    if (keyPem.status === "fulfilled") loaded.pair = joinCredentials(certificatePem.value, keyPem.value);
  } catch (error) {
    refuse(error instanceof CredentialsError && error.part === "key" ? "key_file" : "cert_file", error);
  }
};

const inspectAuthorities = async (loaded: LoadedConfig, config: CollectorConfig, errorAt: ErrorAt): Promise<void> => {
  const read = async (file: string, path: readonly string[]): Promise<string | undefined> => {
    try {
      const pem = await readFile(file, "utf8");
      if ((decodePemBundle(pem, "CERTIFICATE")?.length ?? 0) > 0) return pem;
      loaded.errors.push(errorAt(path, "holds no PEM certificate"));
    } catch (error) {
      loaded.errors.push(errorAt(path, reading(error)));
    }
    return undefined;
  };
  const ingestCaPem = await read(config.forwarder.mtls.caFile, [...mtlsPath, "ca_file"]);
  if (ingestCaPem !== undefined) loaded.ingestCaPem = ingestCaPem;
  if (config.management.caFile === undefined) return;
  const coreCaPem = await read(config.management.caFile, ["management", "ca_file"]);
  if (coreCaPem !== undefined) loaded.coreCaPem = coreCaPem;
};

const inspectBuffer = async (loaded: LoadedConfig, config: CollectorConfig, errorAt: ErrorAt): Promise<void> => {
  try {
    if (!(await stat(config.buffer.dir)).isDirectory())
      loaded.errors.push(errorAt(["buffer", "dir"], "is not a directory"));
  } catch (error) {
    if (reading(error) !== "does not exist") loaded.errors.push(errorAt(["buffer", "dir"], reading(error)));
  }
};
