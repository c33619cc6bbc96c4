import type { Clock } from "../kit/clock.ts";
import type { Entropy } from "../kit/entropy.ts";
import type { Log } from "../kit/log.ts";
import type { CoreConfig } from "./config.ts";
import type { ClientCertificateReader } from "./signer/certificate.ts";
import type { Cryptography } from "./signer/cryptography.ts";
import type { Signer } from "./signer/signer.ts";
import type { Database } from "./store/database.ts";

/** Counters and histograms. Labels never hold a host. */
export interface Observer {
  httpRequest(labels: { route: string; method: string; status: number }, seconds: number): void;
  enroll(outcome: string): void;
  heartbeat(outcome: string): void;
}

/** Figures of the directory sync. */
export interface DirectoryObserver {
  /** A sync that this core ran has ended. */
  ended(outcome: "synced" | "held" | "refused" | "failed"): void;
  /** What the database holds now, whichever core wrote it. */
  stands(facts: { syncedAt: number | null; held: number }): void;
}

/** Every dependency of core's functions. A factory takes the narrowest `Pick` of it. */
export interface Core {
  config: CoreConfig;
  db: Database;
  /** For what judges the whole fleet at once: connections of its own, so that heartbeats never wait for a report. */
  reports: Database;
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
