import { createSecureContext } from "node:tls";
import type { Clock } from "#kit/clock.ts";
import type { ExportConfig } from "../config/export-config.ts";
import { readCertificates, readKeyFile, withConfigError } from "../node/config-files.ts";
import { loadFiles, type ReloadedFiles, type ReloadOptions } from "../node/reload-files.ts";
import type { OtlpClient, OtlpClientOptions } from "./otlp-client.ts";
import { createOtlpGrpcClient } from "./otlp-grpc.ts";
import { createOtlpHttpClient } from "./otlp-http.ts";

/** A client whose files for TLS may be replaced while it is used. */
export interface FollowedClient extends OtlpClient {
  tls: ReloadedFiles;
}

/**
 * Creates the client that the configuration names. Throws `ConfigError` for a file that cannot be read or used. After a change of its files, new
 * requests use new connections, while those in flight finish on the old ones; files that do not match are not used. After a refusal by the
 * backend, checks the file of the headers at once, and sends the request once more if it has changed.
 */
export const createExportClient = async (
  config: ExportConfig,
  {
    log,
    clock,
    followed = [],
  }: {
    log: ReloadOptions<unknown>["log"];
    clock: Clock;
    /** The files of variables. */
    followed?: readonly ReloadedFiles[];
  },
): Promise<FollowedClient> => {
  const { headers, protocol, caFile, clientCertificate } = config;
  const create = protocol === "grpc" ? createOtlpGrpcClient : createOtlpHttpClient;
  const paths = [caFile, clientCertificate?.certFile, clientCertificate?.keyFile].filter(
    (path) => path != null,
  );
  const tls = await loadFiles({ name: "export TLS", paths, log, load: () => readTls(config) });
  const headersFile = followed.find(({ name }) => name === "SVC_EXPORT_HEADERS_FILE");
  const connect = (material: OtlpClientOptions["tls"]) =>
    createRetirable(create({ ...config, clock, tls: material }));
  let used = connect(tls.current());
  tls.subscribe((material) => {
    const next = connect(material);
    used.retire();
    used = next;
  });
  return {
    tls,
    async send(signal, request, timeoutMs) {
      const sentWith = headers();
      const outcome = await used.send(signal, request, timeoutMs);
      if (outcome.status !== "refused") return outcome;
      await headersFile?.check();
      return headers() === sentWith ? outcome : used.send(signal, request, timeoutMs);
    },
    close: () => used.close(),
  };
};

/** A client that is closed once its last request has ended. */
const createRetirable = (client: OtlpClient): OtlpClient & { retire(): void } => {
  let inFlight = 0;
  let isRetired = false;
  const closeIfDone = () => {
    if (isRetired && inFlight === 0) void client.close().catch(() => undefined);
  };
  return {
    async send(signal, request, timeoutMs) {
      inFlight += 1;
      try {
        return await client.send(signal, request, timeoutMs);
      } finally {
        inFlight -= 1;
        closeIfDone();
      }
    },
    retire() {
      isRetired = true;
      closeIfDone();
    },
    close: () => client.close(),
  };
};

const readTls = async ({
  caFile,
  clientCertificate,
}: ExportConfig): Promise<OtlpClientOptions["tls"]> => {
  const ca =
    caFile === null
      ? undefined
      : await withConfigError("SVC_EXPORT_CA_FILE", () => readCertificates(caFile));
  if (clientCertificate === null) return ca === undefined ? {} : { ca };
  const cert = await withConfigError("SVC_EXPORT_CLIENT_CERT_FILE", () =>
    readCertificates(clientCertificate.certFile),
  );
  const key = await withConfigError("SVC_EXPORT_CLIENT_KEY_FILE", () => {
    const pem = readKeyFile(clientCertificate.keyFile);
    try {
      createSecureContext({ cert, key: pem });
    } catch {
      throw new Error("is not an unencrypted private key in PEM that fits the certificate");
    }
    return pem;
  });
  return { ...(ca === undefined ? {} : { ca }), cert, key };
};
