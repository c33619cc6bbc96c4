import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { SharedFor } from "#kit/share-next-run.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import type { CoreConfig } from "./config/core-config.ts";
import type { WatchConfig } from "./config/watch-config.ts";
import type { Observer } from "./counted-metrics.ts";
import type { Chat } from "./domain/chat/chat.ts";
import type { ClientCertificateReader } from "./signer/certificate.ts";
import type { Cryptography } from "./signer/cryptography.ts";
import type { Signer } from "./signer/signer.ts";
import type { HourColumns } from "./store/completeness/hour-columns.ts";
import type { Database } from "./store/database/database.ts";
import type { FleetColumns } from "./store/fleet/columns/fleet-columns.ts";
import type { HeartbeatStore } from "./store/fleet/heartbeats.ts";
import type { PastColumns } from "./store/fleet/past/past-columns.ts";
import type { ObjectReader } from "./store/ingest/object-data.ts";
import type { BlockCodec } from "./store/ingest/stored-envelope.ts";
import type { NewestCaBundles } from "./store/system/ca-bundles.ts";

/** Counts directory syncs and publishes the age of the snapshot. */
export interface DirectoryObserver {
  /** Called when a sync that this core ran has ended. */
  ended(outcome: "synced" | "held" | "refused" | "failed"): void;
  /** Called with the newest snapshot in the database, even if another core wrote it. */
  snapshot(facts: { syncedAt: number | null; held: number }): void;
}

/** Every dependency of core's functions. A factory takes the narrowest `Pick` of it. */
export interface Core {
  config: CoreConfig;
  db: Database;
  heartbeats: HeartbeatStore;
  caBundles: NewestCaBundles;
  /** Its own pool for queries over the whole fleet, so that reports cannot starve heartbeats. */
  reports: Database;
  /** How long callers with the same query share a view of the fleet; absent: only concurrent calls share one. */
  viewsShared?: SharedFor;
  /** Hosts in memory, for views of the fleet; absent: the database computes each view. */
  fleetColumns?: FleetColumns;
  /** The fleet at past times in memory; absent: the database computes each view of the past. */
  pastColumns?: PastColumns;
  /** The states of hours in memory; absent: the database counts them. */
  hourColumns?: HourColumns;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  observe: Observer;
  tracer: Tracer;
  /** Signature checks and digests: node:crypto on Node, WebCrypto in workerd. */
  cryptography: Cryptography;
  /** Decompresses the blocks of telemetry and other compressed data. */
  codec: BlockCodec;
  /** Reads blocks of telemetry whose data are in an object store. */
  objects: ObjectReader;
  /** Null without a configured enrollment signer; the routes for collectors do not exist then. */
  signer: Signer | null;
  /** Verifies client certificates against `SVC_ENROLLMENT_CA_CERT_FILE`; trusts none without a signer. */
  clientCertificates: ClientCertificateReader;
  /** Returns the current receivers of watches: their file is read again when it changes. Null without one. */
  watches(): WatchConfig | null;
  /** Null without a configured model: its routes are 404 then. With `SVC_CHAT_ENABLED=false` they are 503. */
  chat: Chat | null;
}

/** The parts of core that read the database, with its time. */
export type TimedCore = Pick<Core, "db" | "clock">;

/** The parts that read the database, with its time and the configuration. */
export type ReadCore = Pick<Core, "config" | "db" | "clock">;

/** The parts that write to the database, with its time and new ids. */
export type WriteCore = Pick<Core, "db" | "clock" | "entropy">;

/** The parts that write to the database, with its time, new ids and the configuration. */
export type ConfiguredCore = Pick<Core, "config" | "db" | "clock" | "entropy">;
