import * as v from "valibot";
import {
  agentKinds,
  Identifier,
  Platform,
  Sha256Hex,
  Text,
  Timestamp,
  WholeNumber,
} from "../values.ts";

/** PEM of a PKCS#10 request. Its faults are `csr_invalid`, not schema faults. */
export const CsrPem = v.pipe(Text, v.maxLength(65_536, "must be at most 64 KiB"));

/** Body of `POST /v1/collector/enroll`. Unknown fields are ignored. */
export const EnrollRequest = v.object({
  csr_pem: CsrPem,
  device_id: Identifier(128),
  hostname: v.optional(Identifier(253)),
  platform: Platform,
  collector_version: Identifier(64),
  /** Which agent will use the certificate; an older collector leaves it out. */
  agent: v.optional(v.picklist(agentKinds, "must be a kind of agent"), "svc-collector"),
});

/** A parsed enrollment request. */
export type EnrollRequest = v.InferOutput<typeof EnrollRequest>;

/** The largest bundle, in bytes of its PEM. */
export const caBundleBytesMax = 64 * 1024;

/**
 * The authorities that core publishes for one channel. A host takes it only over a connection of that channel, which the authorities that
 * it already has for it have verified, and only with a higher number than that of the bundle that it has.
 */
export const CaBundle = v.object({
  /** One above that of the bundle before, at least. */
  number: WholeNumber(1),
  /** The SHA-256 of `pem`. */
  sha256: Sha256Hex,
  pem: v.pipe(v.string(), v.maxBytes(caBundleBytesMax)),
  published_at: Timestamp,
});

/** A published bundle on the wire. */
export type CaBundle = v.InferOutput<typeof CaBundle>;

/** The newest bundles of both channels; null where none is published. */
const CaBundles = v.object({
  ingest: v.nullable(CaBundle),
  management: v.nullable(CaBundle),
});

/** Response of enroll and renew: the certificate, and when to renew and report. */
export const CertificateIssued = v.object({
  identity_id: v.string(),
  certificate_id: v.string(),
  identity: v.string(),
  certificate_pem: v.string(),
  chain_pem: v.string(),
  serial_number: v.pipe(v.string(), v.regex(/^[0-9a-f]{1,40}$/, "must be lowercase hexadecimal")),
  fingerprint_sha256: Sha256Hex,
  not_before: Timestamp,
  not_after: Timestamp,
  renew_after: Timestamp,
  heartbeat_interval_seconds: WholeNumber(1),
  server_time: Timestamp,
  /** An older core does not publish bundles. */
  ca_bundles: v.optional(CaBundles),
});

/** The response of enroll and renew on the wire. */
export type CertificateIssued = v.InferOutput<typeof CertificateIssued>;
