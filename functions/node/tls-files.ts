import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { readKeyFile } from "./read-key-file.ts";

/** Where a listener with mutual TLS has its certificate from. */
export interface TlsFiles {
  serverCertFile: string;
  serverKeyFile: string;
  clientCaFile: string;
  /** How often the files are looked at; 10 s unless told. */
  reloadIntervalMs?: number;
}

/** What the files hold. */
export interface TlsMaterial {
  cert: Buffer;
  key: Buffer;
  ca: Buffer;
}

/** Reads them; throws when one cannot be read, or the key is open to group or world. */
export const readTlsFiles = ({ serverCertFile, serverKeyFile, clientCaFile }: TlsFiles): TlsMaterial => ({
  cert: readFileSync(serverCertFile),
  key: readKeyFile(serverKeyFile),
  ca: readFileSync(clientCaFile),
});

/**
 * Calls `apply` when the contents of a file have changed and certificate and key fit together. A pair that is half replaced, or a file
 * that cannot be read, changes nothing and is looked at again. Connections that are open keep what they were made with.
 */
export const reloadOnChange = (
  files: TlsFiles,
  apply: (material: TlsMaterial) => void,
  log: { warn(fields: object, message: string): void },
): { stop(): void } => {
  let served = readTlsFiles(files);
  let complained = "";
  const timer = setInterval(() => {
    try {
      const material = readTlsFiles(files);
      if (material.cert.equals(served.cert) && material.key.equals(served.key) && material.ca.equals(served.ca)) return;
      createSecureContext(material);
      apply(material);
      served = material;
      complained = "";
      log.warn({ cert_file: files.serverCertFile }, "TLS files have changed and are in use");
    } catch (err) {
      const complaint = err instanceof Error ? err.message : String(err);
      if (complaint !== complained)
        log.warn({ err }, "TLS files have changed and cannot be used; the old ones are kept");
      complained = complaint;
    }
  }, files.reloadIntervalMs ?? 10_000);
  timer.unref();
  return { stop: () => clearInterval(timer) };
};
