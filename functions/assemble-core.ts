import { untraced } from "#kit/tracing/tracer.ts";
import type { Core } from "./core.ts";
import { unobserved } from "./counted-metrics.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { createClientCertificateReader } from "./signer/certificate.ts";
import { createNewestCaBundles } from "./store/system/ca-bundles.ts";

/** The parts that each program and test brings. */
type OwnParts = "config" | "db" | "clock" | "entropy" | "log" | "cryptography" | "objects";

/**
 * Assembles core. What the caller does not bring is as in the smallest deployment: one pool, nothing observed, no signer, no chat, and the
 * receivers of watches that the configuration has.
 */
export const assembleCore = (parts: Pick<Core, OwnParts> & Partial<Core>): Core => {
  const { config, db, cryptography, heartbeats = { db } } = parts;
  return {
    heartbeats,
    caBundles: createNewestCaBundles(db, heartbeats.db),
    reports: db,
    observe: unobserved,
    tracer: untraced,
    codec: zstdCodec,
    signer: null,
    watches: config.watches,
    chat: null,
    ...parts,
    clientCertificates:
      parts.clientCertificates ?? createClientCertificateReader({ authorities: [], cryptography }),
  };
};
