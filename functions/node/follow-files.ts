import type { CoreConfig, IngestConfig, SignerConfig } from "../config.ts";
import type { Authority } from "../signer/authority.ts";
import { type ClientCertificateReader, createClientCertificateReader } from "../signer/certificate.ts";
import type { Signer } from "../signer/signer.ts";
import { checkIngestTrust } from "./check-ingest-trust.ts";
import { type SignerNeeds, signerLoader } from "./load-signer.ts";
import { loadFiles, type Reloaded, type ReloadedFiles, type ReloadOptions } from "./reload-files.ts";
import { readTlsFiles, type TlsMaterial } from "./tls-files.ts";

/** A signer and a reader of client certificates that follow the CA files. */
export interface FollowedSigner {
  signer: Signer;
  clientCertificates: ClientCertificateReader;
  files: ReloadedFiles;
  authorities(): readonly Authority[];
}

/** What core makes of files that may change while it runs. */
export interface FollowedFiles {
  signing: FollowedSigner | null;
  tls: Reloaded<TlsMaterial> | null;
  /** Takes up what has changed; see `ReloadedFiles`. */
  check(): Promise<void>;
}

/** What following needs of core. */
export type FollowNeeds = SignerNeeds & { log: ReloadOptions<unknown>["log"] };

/**
 * Loads the enrollment CA and the TLS files of the ingest listener, where configured, and follows them. Throws `ConfigError` with
 * the variable at fault. At the start and at every change: a signing CA that the ingest listener would not trust is no good.
 */
export const followFiles = async (
  { signer, ingest }: Pick<CoreConfig, "signer" | "ingest">,
  needs: FollowNeeds,
): Promise<FollowedFiles> => {
  const signing = signer && (await followSigner(signer, ingest, needs));
  const tls = ingest && (await followTls(ingest, signing, needs));
  return {
    signing,
    tls,
    // One after the other: where a CA is replaced in both places at once, each must see the other's new file.
    check: async () => {
      await signing?.files.check();
      await tls?.check();
    },
  };
};

const followSigner = async (config: SignerConfig, ingest: IngestConfig | null, needs: FollowNeeds) => {
  const { cryptography, log } = needs;
  const load = await signerLoader(config, needs);
  const files = await loadFiles({
    name: "enrollment CA",
    paths: config.kind === "local-ca" ? [config.caCertFile, config.caKeyFile] : [config.caCertFile],
    log,
    load: async () => {
      const { signer, authorities } = await load();
      if (ingest) await checkIngestTrust(ingest.clientCaFile, authorities, cryptography);
      return { signer, authorities, reader: createClientCertificateReader({ authorities, cryptography }) };
    },
  });
  const { current } = files;
  return {
    files,
    signer: {
      sign: (request) => current().signer.sign(request),
      faultAt: (now) => current().signer.faultAt(now),
    },
    clientCertificates: { read: (der) => current().reader.read(der) },
    authorities: () => current().authorities,
  } satisfies FollowedSigner;
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
