import type { CoreConfig } from "./config.ts";
import type { Clock } from "./kit/clock.ts";
import type { Entropy } from "./kit/entropy.ts";
import type { ClientCertificateReader } from "./signer/certificate.ts";
import type { Cryptography } from "./signer/cryptography.ts";
import type { Signer } from "./signer/signer.ts";
import type { Database } from "./store/database.ts";

/** One structured line a record; fields first, as pino has it. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Counters and histograms. Labels never hold a host. */
export interface Observer {
  httpRequest(labels: { route: string; method: string; status: number }, seconds: number): void;
  enroll(outcome: string): void;
  heartbeat(outcome: string): void;
}

/** Every dependency of core's functions. A factory takes the narrowest `Pick` of it. */
export interface Core {
  config: CoreConfig;
  db: Database;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  observe: Observer;
  /** Signature checks and digests: node:crypto on Node, WebCrypto in workerd. */
  cryptography: Cryptography;
  /** Null where no enrollment signer is configured: the collector-facing routes do not exist then. */
  signer: Signer | null;
  /** Reads client certificates against `SVC_ENROLLMENT_CA_CERT_FILE`; over an empty bundle, trusting nobody, without a signer. */
  clientCertificates: ClientCertificateReader;
}
