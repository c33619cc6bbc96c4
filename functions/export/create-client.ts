import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { ExportConfig } from "../export-config.ts";
import { readKeyFile } from "../node/read-key-file.ts";
import { withConfigError } from "../node/with-config-error.ts";
import type { OtlpClient } from "./otlp-client.ts";
import { createOtlpGrpcClient } from "./otlp-grpc.ts";
import { createOtlpHttpClient } from "./otlp-http.ts";

/** Makes the client that the configuration names. Throws `ConfigError` for a file that cannot be read or used. */
export const createExportClient = async (config: ExportConfig): Promise<OtlpClient> => {
  const { endpoint, protocol, headers, concurrency, timeoutMs, isCompressed } = config;
  const create = protocol === "grpc" ? createOtlpGrpcClient : createOtlpHttpClient;
  return create({
    endpoint,
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()])),
    tls: await readTls(config),
    concurrency,
    timeoutMs,
    isCompressed,
    now: Date.now,
  });
};

const readTls = async ({ caFile, clientCertificate }: ExportConfig) => {
  const ca =
    caFile === null
      ? undefined
      : await withConfigError("SVC_EXPORT_CA_FILE", () => {
          const pem = readFileSync(caFile);
          createSecureContext({ ca: pem });
          if (!pem.includes("-----BEGIN CERTIFICATE-----")) throw new Error("holds no certificate in PEM");
          return pem;
        });
  if (clientCertificate === null) return ca === undefined ? {} : { ca };
  const cert = await withConfigError("SVC_EXPORT_CLIENT_CERT_FILE", () => readFileSync(clientCertificate.certFile));
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
