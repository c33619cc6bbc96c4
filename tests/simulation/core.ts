/** A core's ingest as the product builds it, on the model of the server: from the bytes of a call to the commit. */

import { createConnectRouter, createContextValues } from "@connectrpc/connect";
import type { Compression, UniversalHandler } from "@connectrpc/connect/protocol";
import type { Client } from "pg";
import type { AccountRegister } from "#functions/ingest/accounts.ts";
import { callerCertificateKey } from "#functions/ingest/admission.ts";
import { createObjectAdopter, type ObjectAdopter } from "#functions/ingest/adopt-objects.ts";
import { createCommitter } from "#functions/ingest/committer.ts";
import { createIngest, type Ingest } from "#functions/ingest/create-ingest.ts";
import { createFastPath } from "#functions/ingest/fast-path/create-fast-path.ts";
import { createHeldHosts, type HeldHosts, holdBack } from "#functions/ingest/held-hosts.ts";
import { createObjectWriter } from "#functions/ingest/object-writer.ts";
import { createQueueOpener, type QueueRegister } from "#functions/ingest/open-queue.ts";
import type { QueueEventNeeds } from "#functions/ingest/queue-events.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { createAccountRegister } from "#functions/ingest-registers.ts";
import { sweepObjects } from "#functions/jobs/sweep-objects.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { ObjectWriter } from "#functions/store/ingest/commit-batch.ts";
import { createObjectReader } from "#functions/store/ingest/object-data.ts";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { GrpcError, readGrpcStatus } from "#proto/grpc-status.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { createAccountStatements } from "./account-statements.ts";
import { type Bucket, bucketLineage } from "./bucket.ts";
import { connectCommitClient, type DatabaseDelays } from "./commit-client.ts";
import type { DatabaseServer } from "./database.ts";
import { connectExportDatabase } from "./export-database.ts";
import { hostCryptography, keyOfHost } from "./host-keys.ts";
import type { Network, Target } from "./network.ts";
import { createQueueStatements } from "./queue-statements.ts";
import { createModelRegister } from "./register.ts";
import { tracedAccounts, tracedRegister, tracedSink } from "./trace.ts";
import { endProcess, type Process, type World } from "./world.ts";

/** A core that serves hosts. */
export interface SimulatedCore extends Target {
  ingest: Ingest;
  /** The hosts of which it stores nothing now. */
  held: HeldHosts;
  /** Ends the process as SIGKILL does. */
  kill(): void;
}

/** Changes the sink: a planted fault. */
export type SinkFault = (sink: Sink) => Sink;

/** Changes the register of queues: a planted fault. */
export type RegisterFault = <Tx>(register: QueueRegister<Tx>) => QueueRegister<Tx>;

/** Changes what writes objects: a planted fault. */
export type WriterFault = (writer: ObjectWriter) => ObjectWriter;

/** Changes what adopts objects: a planted fault. */
export type AdoptionFault = (create: typeof createObjectAdopter) => typeof createObjectAdopter;

/** Changes the register of accounts: a planted fault. */
export type AccountsFault = (register: AccountRegister) => AccountRegister;

/** The dependencies of a core. */
export interface CoreNeeds {
  name: string;
  server: DatabaseServer;
  network: Network;
  delays: DatabaseDelays;
  /** The hosts that are revoked. */
  revoked: ReadonlyMap<string, unknown>;
  /** The largest frame that it accepts. */
  frameBytesMax: number;
  /** Stores telemetry there; undefined: in rows. */
  bucket: Bucket | undefined;
  /** It stores in rows, beside cores that store in the bucket. */
  storesRows?: boolean;
  fault?:
    | {
        sink?: SinkFault;
        register?: RegisterFault;
        accounts?: AccountsFault;
        missesRestores?: boolean;
        writer?: WriterFault;
        adoption?: AdoptionFault;
        nonces?: Entropy;
      }
    | undefined;
}

const certificateMs = 365 * 86_400_000;
/** What a core may have in memory of frames that are not stored. */
export const inFlightBytesMax = 4 * 2 ** 20;

/** Starts a core. */
export const startCore = (world: World, needs: CoreNeeds): SimulatedCore => {
  const { name, server, network, revoked, frameBytesMax, fault = {} } = needs;
  const process: Process = world.process(name);
  return world.as(process, () => {
    const clock = world.clockOf(process);
    const connections: (() => void)[] = [];
    const held = createHeldHosts(clock);
    const shared: SinkNeeds = {
      ...needs,
      process,
      clock,
      codec: zstdCodec,
      entropy: world.entropy,
      observe: observers,
      log: {
        debug: nothing,
        info: nothing,
        warn: nothing,
        error: (fields: object) => world.note(`${name}: ${JSON.stringify(fields)}`),
      },
      connect: () =>
        connectCommitClient(world, {
          ...needs,
          core: process,
          onOpened: (sever) => connections.push(sever),
        }),
    };
    if (needs.bucket) Object.assign(shared, openObjects(world, shared, needs.bucket));
    let handler: UniversalHandler | undefined;
    const opened = openSink(world, shared);
    const sink = fault.sink?.(opened) ?? opened;
    const ingest = createIngest({
      config: {
        frameBytesMax,
        payloadBytesMax: 2 ** 20,
        discardSpanNames: [],
        requireEnrollment: false,
      },
      hostIdBytesMax: 512,
      inFlightBytesMax,
      codec: zstdCodec,
      clock,
      log: shared.log,
      observe: observers,
      entropy: createSeededEntropy(),
      sink: holdBack(
        tracedSink(world, name, sink, () => server.tables.heard),
        held,
      ),
      accounts: openAccounts(world, shared),
      certificates: {
        find: async () => new Map(),
        areActive: async () => true,
        ended: async () => ({ read: { server: "", xid: "0" }, ended: new Set() }),
        use: async () => undefined,
        refused: async () => undefined,
      },
      fastPath: (plain, some) => {
        handler = createFastPath(plain, some);
        return handler;
      },
    });
    ingest.routes.routes(createConnectRouter(), identity);
    ingest.watch(new AbortController().signal).catch(nothing);
    if (!fault.missesRestores) void watchRestores(server, clock, ingest.reopenStreams);

    const core: SimulatedCore = {
      process,
      ingest,
      held,
      async *listener({ hostId, body, signal }) {
        if (revoked.has(hostId)) throw new GrpcError("permission_denied", "identity_revoked");
        if (handler === undefined) throw new GrpcError("unavailable", "core has not started");
        const { certificate: der, fingerprintSha256 } = keyOfHost(hostId);
        const contextValues = createContextValues().set(callerCertificateKey, {
          identity: { ok: true, kind: "uri", identity: hostId },
          fingerprintSha256,
          notAfter: clock.now() + certificateMs,
          connection: { der, remoteAddress: "127.0.0.1" },
        });
        const response = await handler({
          httpVersion: "2.0",
          method: "POST",
          url: "https://core/svc.ingest.v1.IngestService/Forward",
          header: new Headers({ "content-type": "application/grpc+proto" }),
          body,
          signal,
          contextValues,
        });
        yield* response.body ?? [];
        const status = readGrpcStatus(Object.fromEntries(response.trailer ?? []));
        if (status !== "ok") throw status ?? new Error("a call without a status");
      },
      kill: () => {
        endProcess(process);
        network.cut(({ core }) => core === process);
        for (const sever of connections) sever();
      },
    };
    return core;
  });
};

/** What the sink needs. */
interface SinkNeeds extends CoreNeeds, QueueEventNeeds {
  process: Process;
  clock: Clock;
  codec: typeof zstdCodec;
  observe: typeof observers;
  log: Record<"debug" | "info" | "warn" | "error", (fields: object) => void>;
  connect(): Promise<Client>;
  objects?: ObjectWriter;
  recover?: ObjectAdopter["recover"];
}

/** Writes, adopts and sweeps objects. */
const openObjects = (
  world: World,
  needs: SinkNeeds,
  bucket: Bucket,
): Pick<SinkNeeds, "objects" | "recover"> => {
  const { name, process: client, clock, entropy, observe, fault } = needs;
  const statements = createQueueStatements(needs.server);
  const db = connectExportDatabase(world, { ...needs, client }, statements);
  const store = bucket.open(client);
  const objects = createObjectReader({ db, codec: zstdCodec, open: async () => store });
  const named = { storeId: 1, lineage: bucketLineage };
  const adopting = { ...needs, ...named, db, objects };
  const createAdopter = fault?.adoption?.(createObjectAdopter) ?? createObjectAdopter;
  const { settleOld, checkRestored, recover } = createAdopter(adopting);
  const sweep = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(sweepMs);
      await sweepObjects({ db, objects, settleOld }).catch((cause) =>
        world.note(`${name}: ${cause}`),
      );
    }
  };
  void sweep();
  const drawing = { db, clock, entropy: fault?.nonces ?? entropy };
  const beforeDraw = checkRestored;
  const writer = createObjectWriter({ ...drawing, ...named, store, observe, beforeDraw });
  if (needs.storesRows) return { recover };
  return { objects: fault?.writer?.(writer) ?? writer, recover };
};
/** More often than the product, so that a sweep meets what a core does. */
const sweepMs = 5_000;

const openSink = (world: World, needs: SinkNeeds): Sink => {
  const { process, clock, server, delays, fault } = needs;
  const modelled = createModelRegister(world, { server, delays, client: process });
  const register = tracedRegister(world, needs.name, fault?.register?.(modelled) ?? modelled);
  return {
    ...createQueueOpener({ ...needs, register, pause: () => clock.sleep(20) }),
    ...createCommitter(needs),
  };
};

const openAccounts = (world: World, needs: SinkNeeds): AccountRegister => {
  const { name, process: client, clock, entropy, server, fault } = needs;
  const db = connectExportDatabase(world, { ...needs, client }, createAccountStatements(server));
  const register = createAccountRegister({ db, clock, entropy, cryptography: hostCryptography });
  return tracedAccounts(world, name, fault?.accounts?.(register) ?? register);
};

/** Core's probe of the database: what it finds is a count here (functions/domain/directory/restored.ts). */
const watchRestores = async (
  server: DatabaseServer,
  clock: Clock,
  onRestored: () => void,
): Promise<void> => {
  for (let seen = server.restores(); ; seen = server.restores()) {
    await clock.sleep(probeMs);
    if (server.restores() <= seen) continue;
    server.noticeRestore(clock.now());
    onRestored();
  }
};
const probeMs = 1_000;

const nothing = (): void => undefined;
const observers = {
  committed: nothing,
  refused: nothing,
  gap: nothing,
  implausibleGap: nothing,
  batch: nothing,
  objectWrite: nothing,
  objects: nothing,
  adopted: nothing,
};

/** Hosts of a simulation do not compress. */
const identity: Compression = {
  name: "gzip",
  compress: async (bytes) => Uint8Array.from(bytes),
  decompress: async (bytes) => Uint8Array.from(bytes),
};
