import { createSecureContext } from "node:tls";
import { readCertificate } from "../../proto/certificate-der.ts";
import { decodePemBundle } from "../../proto/pem.ts";
import { readKeyFile, readTrustedFile } from "./read-key-file.ts";
import { withConfigError } from "./with-config-error.ts";

/** Files of a listener with mutual TLS. */
export interface TlsFiles {
  serverCertFile: string;
  serverKeyFile: string;
  clientCaFile: string;
}

/** The contents of those files. */
export interface TlsMaterial {
  cert: Buffer;
  /** When the first of its chain expires, milliseconds since the epoch: clients reject the listener from then on. */
  certNotAfter: number;
  key: Buffer;
  ca: Buffer;
}

/**
 * Reads the files of the ingest listener. Throws `ConfigError` with the variable at fault when one cannot be read or holds no
 * certificate, when the key is open to group or world, or when it is not the certificate's.
 */
export const readTlsFiles = async ({
  serverCertFile,
  serverKeyFile,
  clientCaFile,
}: TlsFiles): Promise<TlsMaterial> => {
  const { pem: cert, notAfter } = await withConfigError("SVC_INGEST_SERVER_CERT_FILE", () =>
    readCertificates(serverCertFile),
  );
  const { pem: ca } = await withConfigError("SVC_INGEST_CLIENT_CA_FILE", () =>
    readCertificates(clientCaFile),
  );
  const key = await withConfigError("SVC_INGEST_SERVER_KEY_FILE", () => {
    const pem = readKeyFile(serverKeyFile);
    checkPair(cert, pem);
    return pem;
  });
  return { cert, certNotAfter: notAfter, key, ca };
};

/** OpenSSL would accept a bundle without a certificate, and then reject every client. */
const readCertificates = (path: string): { pem: Buffer; notAfter: number } => {
  const pem = readTrustedFile(path);
  const certificates = decodePemBundle(pem.toString("latin1"), "CERTIFICATE");
  if (certificates === undefined || certificates.length === 0)
    throw new Error("holds no certificate in PEM");
  return { pem, notAfter: Math.min(...certificates.map((der) => readCertificate(der).notAfter)) };
};

const checkPair = (cert: Buffer, key: Buffer): void => {
  try {
    createSecureContext({ cert, key });
  } catch {
    // OpenSSL's own message does not help an operator.
    throw new Error("is not an unencrypted private key in PEM that fits the certificate");
  }
};
