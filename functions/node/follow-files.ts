import { createSecureContext } from "node:tls";
import { equalBytes } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import { variableFault } from "#kit/env.ts";
import type { Log } from "#kit/log.ts";
import type { CoreConfig, IngestConfig, SignerConfig } from "../config/core-config.ts";
import { type Authority, hasIssued, readAuthorities } from "../signer/authority.ts";
import {
  type ClientCertificateReader,
  createClientCertificateReader,
} from "../signer/certificate.ts";
import type { Cryptography } from "../signer/cryptography.ts";
import { createExternalCommand } from "../signer/external-command.ts";
import { createLocalCa } from "../signer/local-ca.ts";
import { type Signer, SignerFault } from "../signer/signer.ts";
import {
  loadTogether,
  readCertificates,
  readKeyFile,
  readTrustedFile,
  withConfigError,
} from "./config-files.ts";
import { type FollowedBundle, followCaBundle } from "./follow-ca-bundle.ts";
import { createNodeSigningKey } from "./node-cryptography.ts";
import { loadFiles, type Reloaded, type ReloadOptions } from "./reload-files.ts";
import { createCommand } from "./run-command.ts";

/** The parts of core that following uses. */
type FollowNeeds = SignerNeeds & { log: ReloadOptions<unknown>["log"] };

type FollowedSigner = Awaited<ReturnType<typeof followSigner>>;

/**
 * Loads the enrollment CA and the TLS files of the ingest listener, where configured. Throws `ConfigError` with the variables at fault. At the
 * start and at every change, a signing CA that the ingest listener would not trust is invalid.
 */
export const followFiles = async (
  config: Pick<CoreConfig, "signer" | "ingest" | "managementCaBundleFile">,
  needs: FollowNeeds,
) => {
  const { signer, ingest } = config;
  let signing = null as FollowedSigner | null;
  const { tls } = await loadTogether({
    signing: async () => {
      signing = signer && (await followSigner(signer, ingest, needs));
    },
    tls: () => ingest && followTls(ingest, signing, needs),
  });
  const bundles = await followCaBundles(config, tls, needs);
  return {
    signing,
    tls,
    /** Those that the configuration names. */
    bundles,
    /** In this order: if a CA is replaced in several files at once, each load must read the others' new files. */
    all: [...(signing ? [signing.files] : []), ...(tls ? [tls] : []), ...bundles],
  };
};

/** The files that core follows, and what is in use of them. */
export type FollowedFiles = Awaited<ReturnType<typeof followFiles>>;

/** Loads the signer and the reader of client certificates, reloaded when the CA files change. */
const followSigner = async (
  config: SignerConfig,
  ingest: IngestConfig | null,
  needs: FollowNeeds,
) => {
  const { cryptography, log } = needs;
  const load = await signerLoader(config, needs);
  const files = await loadFiles({
    name: "enrollment CA",
    paths: config.kind === "local-ca" ? [config.caCertFile, config.caKeyFile] : [config.caCertFile],
    log,
    load: async () => {
      const { signer, authorities } = await load();
      if (ingest) await checkIngestTrust(ingest.clientCaFile, authorities, cryptography);
      return {
        signer,
        authorities,
        reader: createClientCertificateReader({ authorities, cryptography }),
      };
    },
  });
  const { current } = files;
  return {
    files,
    signer: {
      sign: (request) => current().signer.sign(request),
      faultAt: (now) => current().signer.faultAt(now),
      notAfter: () => current().signer.notAfter(),
    } satisfies Signer,
    clientCertificates: {
      read: (der) => current().reader.read(der),
    } satisfies ClientCertificateReader,
    authorities: () => current().authorities,
  };
};

const followTls = (
  config: IngestConfig,
  signing: FollowedSigner | null,
  { cryptography, log }: FollowNeeds,
): Promise<Reloaded<TlsMaterial>> =>
  loadFiles({
    name: "ingest TLS",
    paths: [config.serverCertFile, config.serverKeyFile, config.clientCaFile],
    log,
    load: async () => {
      if (signing) await checkIngestTrust(config.clientCaFile, signing.authorities(), cryptography);
      return readTlsFiles(config);
    },
  });

const followCaBundles = async (
  { ingest, managementCaBundleFile }: Pick<CoreConfig, "ingest" | "managementCaBundleFile">,
  tls: Reloaded<TlsMaterial> | null,
  needs: FollowNeeds,
): Promise<FollowedBundle[]> => {
  const bundles: FollowedBundle[] = [];
  if (ingest?.caBundleFile && tls) {
    const file = { channel: "ingest", variable: "SVC_INGEST_CA_BUNDLE_FILE" } as const;
    const paths = [ingest.serverCertFile, ingest.serverKeyFile];
    const listener = { current: tls.current, paths };
    bundles.push(
      await followCaBundle({ ...file, path: ingest.caBundleFile }, { ...needs, tls: listener }),
    );
  }
  if (managementCaBundleFile) {
    const file = { channel: "management", variable: "SVC_MANAGEMENT_CA_BUNDLE_FILE" } as const;
    bundles.push(
      await followCaBundle({ ...file, path: managementCaBundleFile }, { ...needs, tls: null }),
    );
  }
  return bundles;
};

/**
 * Throws `ConfigError` if the ingest listener would reject every certificate that core issues: a signing CA must be in
 * `SVC_INGEST_CLIENT_CA_FILE`, or one in that file must have issued it.
 */
const checkIngestTrust = async (
  clientCaFile: string,
  signing: readonly Authority[],
  cryptography: Cryptography,
) => {
  const variable = "SVC_INGEST_CLIENT_CA_FILE";
  const trusted = await withConfigError(variable, () =>
    readAuthorities(readTrustedFile(clientCaFile).toString("utf8")),
  );
  for (const authority of signing) {
    for (const anchor of trusted) {
      if (
        equalBytes(anchor.der, authority.der) ||
        (await hasIssued(anchor, authority, cryptography))
      )
        return;
    }
  }
  throw variableFault(variable, "trusts no certificate that the enrollment signer issues");
};

/** The contents of the files of a listener with mutual TLS. */
export interface TlsMaterial {
  cert: Buffer;
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
}: Pick<
  IngestConfig,
  "serverCertFile" | "serverKeyFile" | "clientCaFile"
>): Promise<TlsMaterial> => {
  const cert = await withConfigError("SVC_INGEST_SERVER_CERT_FILE", () =>
    readCertificates(serverCertFile),
  );
  const ca = await withConfigError("SVC_INGEST_CLIENT_CA_FILE", () =>
    readCertificates(clientCaFile),
  );
  const key = await withConfigError("SVC_INGEST_SERVER_KEY_FILE", () => {
    const pem = readKeyFile(serverKeyFile);
    checkPair(cert, pem);
    return pem;
  });
  return { cert, key, ca };
};

const checkPair = (cert: Buffer, key: Buffer) => {
  try {
    createSecureContext({ cert, key });
  } catch {
    // OpenSSL's own message does not help an operator.
    throw new Error("is not an unencrypted private key in PEM that fits the certificate");
  }
};

/** A signer and the bundle that its certificates are verified against. */
interface LoadedSigner {
  signer: Signer;
  authorities: readonly Authority[];
}

/** The parts of core that signers use. */
export interface SignerNeeds {
  cryptography: Cryptography;
  clock: Pick<Clock, "now">;
  log: Pick<Log, "warn">;
}

/**
 * Returns a function that loads the configured signer from its files, each time it is called. An external command is created once, so
 * that its limits hold across reloads. Both throw `ConfigError` with the variable; the message quotes no file.
 */
export const signerLoader = async (
  config: SignerConfig,
  needs: SignerNeeds,
): Promise<() => Promise<LoadedSigner>> => {
  const { cryptography, clock, log } = needs;
  const readBundle = () =>
    withConfigError("SVC_ENROLLMENT_CA_CERT_FILE", () =>
      readAuthorities(readTrustedFile(config.caCertFile).toString("utf8")),
    );
  if (config.kind === "local-ca")
    return async () => {
      const authorities = await readBundle();
      const signer = await withConfigError("SVC_ENROLLMENT_CA_KEY_FILE", () =>
        createLocalCa({
          authorities,
          key: createNodeSigningKey(readKeyFile(config.caKeyFile)),
          cryptography,
        }),
      );
      return { signer, authorities };
    };
  const command = await withConfigError("SVC_ENROLLMENT_SIGNER_COMMAND", () =>
    createCommand({
      command: config.command,
      name: "signer command",
      Fault: SignerFault,
      log,
    }),
  );
  return async () => {
    const authorities = await readBundle();
    return {
      signer: createExternalCommand({ command, authorities, cryptography, clock }),
      authorities,
    };
  };
};
