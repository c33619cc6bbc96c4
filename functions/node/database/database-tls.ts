import type { ConnectionOptions } from "node:tls";
import { splitDatabaseUrl } from "../../../kit/database-url.ts";
import { fileFault } from "../../../kit/describe-error.ts";
import { ConfigError } from "../../../kit/env.ts";
import { readKeyFile, readTrustedFile } from "../read-key-file.ts";

/**
 * Reads the files that a URL names for TLS. Returns options of `tls.connect`; undefined without TLS. Throws `ConfigError` with `variable`
 * for a file that cannot be read.
 */
export const readDatabaseTls = (url: string, variable: string): ConnectionOptions | undefined => {
  const { tls, servers } = splitDatabaseUrl(url);
  if (tls === undefined) return undefined;
  const read = (parameter: string, path: string, readPem = readTrustedFile): string => {
    try {
      return readPem(path).toString("utf8");
    } catch (cause) {
      throw new ConfigError([
        {
          variable,
          message: `has a file in ${parameter} that cannot be used: ${fileFault(cause)}`,
        },
      ]);
    }
  };
  const [only = "", ...others] = servers;
  return {
    ...(tls.rootCertFile ? { ca: read("sslrootcert", tls.rootCertFile) } : {}),
    ...(tls.certFile ? { cert: read("sslcert", tls.certFile) } : {}),
    ...(tls.keyFile ? { key: read("sslkey", tls.keyFile, readKeyFile) } : {}),
    ...(tls.mode === "require" ? { rejectUnauthorized: false } : {}),
    ...(tls.mode === "verify-ca" ? { checkServerIdentity: () => undefined } : {}),
    // Where the host is an address, its certificate is verified for that. Of several servers by address none is accepted.
    ...(others.length === 0 ? { host: new URL(only).hostname.replace(/^\[|\]$/g, "") } : {}),
  };
};
