import type { ConnectedDatabase } from "#functions/store/database/database.ts";
import type { EmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import type { TcpProxy } from "#tests/fakes/tcp-proxy.ts";
import type { ChaosBackend } from "./chaos-backend.ts";
import type { WrongClocks } from "./clocks.ts";
import type { Rotation } from "./collector-load.ts";
import type { CopiedHost } from "./copied-hosts.ts";
import type { KilledProgram } from "./killed-program.ts";

/** The targets of faults. */
export interface Scene {
  postgres: EmbeddedPostgres;
  /** Promotes a standby, and connects new connections to it; core keeps those to the old primary, which is read-only. */
  failOver(): Promise<void>;
  /** Between core and PostgreSQL. */
  proxy: TcpProxy;
  /** A connection beside the proxy. */
  sql: ConnectedDatabase["sql"];
  /** They serve as one; each has a port for HTTP, in this order. */
  cores: readonly KilledProgram[];
  httpPorts: readonly number[];
  /** Of the first core. */
  ingestPort: number;
  collector: KilledProgram;
  /** The data directory of the collector. */
  collectorDir: string;
  /** Between the collector and the cores, and what it connects to. */
  link: TcpProxy;
  balance: () => number;
  /** Rotates the log that the collector reads. */
  rotate(how: Rotation): void;
  exporter: KilledProgram;
  backend: ChaosBackend;
  clocks: WrongClocks;
  /** The hosts that send, in the order of their queues. */
  hostIds: readonly string[];
  /** Hosts whose disks are restored and copied; their queues follow those of `hostIds`. */
  copied: readonly CopiedHost[];
  /** Numbers what a dump has anew, as `svc-server export adopt-database` does. */
  adoptExports(): Promise<void>;
  /** How long before a restore its backup is taken; drawn if undefined. */
  backupMs: number | undefined;
  /** Notes what transactions from `since` on have stored: the database is about to be discarded. */
  discardDatabase(since: string): Promise<void>;
  /** Credentials of hosts that send nothing, one for each fault: core's limits count what a certificate did before. */
  strangers: { resets: StrangerTls; slow: StrangerTls };
}

/** Credentials in PEM. */
export interface StrangerTls {
  cert: string;
  key: string;
  ca: string;
}

/** A fault, and the goals of its case for it. */
export interface Fault {
  /** The case of scripts/reliability/cases.yaml. */
  id: string;
  /** What it stops or changes: faults that share any are not injected at once. */
  touches?: readonly string[];
  /** Longest time from the end of the fault until every queue is acknowledged and core ready; the median, if it has a goal of its own. */
  recoveryMs: { max: number; p50?: number };
  /** Longest time, while it lasts, without an acknowledgement of `any` queue, or of `each` that the fault does not concern. */
  pause?: { of: "any" | "each"; msMax: number };
  /** How often the export may send an item again by its fault, as docs/export.md has it; once without it. */
  repeats?: number;
  /** The index of the one host that it concerns. */
  concerned?(scene: Scene, draw: number): number;
  /** Injects it, and resolves when it has ended; `draw` is in [0, 1). */
  inject(scene: Scene, draw: number): Promise<void>;
}

/** Reports whether two faults can be injected at once. */
export const areApart = ({ touches: one = [] }: Fault, { touches: other = [] }: Fault) =>
  !one.some((target) => other.includes(target));

/** Returns a duration between two numbers of seconds, in ms, for a draw in [0, 1). */
export const seconds = (draw: number, from: number, to: number) =>
  (from + draw * (to - from)) * 1000;
