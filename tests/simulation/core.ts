/** A core's ingest as the product builds it, on the model of the server: from the bytes of a call to the commit. */
import { createConnectRouter, createContextValues } from "@connectrpc/connect";
import type { Compression, UniversalHandler } from "@connectrpc/connect/protocol";
import type { Client } from "pg";
import { callerCertificateKey } from "../../functions/ingest/admission.ts";
import { createCommitter } from "../../functions/ingest/committer.ts";
import { createIngest, type Ingest } from "../../functions/ingest/create-ingest.ts";
import { createFastPath } from "../../functions/ingest/fast-path/create-fast-path.ts";
import { createQueueOpener } from "../../functions/ingest/open-queue.ts";
import type { Sink } from "../../functions/ingest/sink.ts";
import { blockCodec } from "../../functions/node/ingest/block-codec.ts";
import type { Clock } from "../../kit/clock.ts";
import { readGrpcStatus } from "../../proto/grpc-status.ts";
import { connectCommitClient, type DatabaseDelays } from "./commit-client.ts";
import type { DatabaseServer } from "./database.ts";
import type { Network, Target } from "./network.ts";
import { createModelRegister, type RegisterFault } from "./register.ts";
import { endProcess, type Process, type World } from "./world.ts";

/** A core that serves hosts. */
export interface SimulatedCore extends Target {
  ingest: Ingest;
  /** Ends the process as SIGKILL does. */
  kill(): void;
}

/** Changes the sink: a planted fault. */
export type SinkFault = (sink: Sink) => Sink;

/** The dependencies of a core. */
export interface CoreNeeds {
  name: string;
  server: DatabaseServer;
  network: Network;
  delays: DatabaseDelays;
  fault?: { sink?: SinkFault; register?: RegisterFault; missesRestores?: boolean } | undefined;
}

const certificateMs = 365 * 86_400_000;

/** Starts a core. */
export const startCore = (world: World, { name, server, network, delays, fault = {} }: CoreNeeds): SimulatedCore => {
  const process: Process = world.process(name);
  return world.as(process, () => {
    const clock = world.clockOf(process);
    const observe = { committed: nothing, refused: nothing, gap: nothing, implausibleGap: nothing, batch: nothing };
    const log = {
      debug: nothing,
      info: nothing,
      warn: nothing,
      error: (fields: object) => world.note(`${name}: ${JSON.stringify(fields)}`),
    };
    const connections: (() => void)[] = [];
    const connect = (): Promise<Client> =>
      connectCommitClient(world, { server, core: process, delays, onOpened: (sever) => connections.push(sever) });
    const register = createModelRegister(world, {
      ...{ server, client: process, delays },
      ...(fault.register && { fault: fault.register }),
    });
    const sink: Sink = {
      ...createQueueOpener({ register, clock, observe, log, pause: () => clock.sleep(20) }),
      ...createCommitter({ connect, clock, codec: blockCodec, observe }),
    };
    let handler: UniversalHandler | undefined;
    const ingest = createIngest({
      config: { frameBytesMax: 2 ** 20, payloadBytesMax: 2 ** 20, discardSpanNames: [], requireEnrollment: false },
      hostIdBytesMax: 512,
      sink: fault.sink?.(sink) ?? sink,
      codec: blockCodec,
      clock,
      log,
      observe,
      certificates: {
        find: async () => new Map(),
        areActive: async () => true,
        use: async () => undefined,
        refused: async () => undefined,
      },
      fastPath: (plain, shared) => {
        handler = createFastPath(plain, shared);
        return handler;
      },
    });
    ingest.routes.routes(createConnectRouter(), identity);
    const end = new AbortController();
    ingest.watch(end.signal).catch(nothing);
    if (!fault.missesRestores) void watchRestores(server, clock, ingest.reopenStreams);

    return {
      process,
      ingest,
      async *listener({ hostId, body, signal }) {
        if (handler === undefined) throw new Error("ingest has no handler");
        const contextValues = createContextValues().set(callerCertificateKey, {
          identity: { ok: true, kind: "uri", identity: hostId },
          fingerprintSha256: Buffer.from(hostId).toString("hex").padEnd(64, "0").slice(0, 64),
          notAfter: clock.now() + certificateMs,
        });
        const response = await handler({
          ...{ httpVersion: "2.0", method: "POST", url: "https://core/svc.ingest.v1.IngestService/Forward" },
          header: new Headers({ "content-type": "application/grpc+proto" }),
          ...{ body, signal, contextValues },
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
  });
};

/** Core's probe of the database: what it finds is a count here (functions/domain/directory/restored.ts). */
const watchRestores = async (server: DatabaseServer, clock: Clock, onRestored: () => void): Promise<void> => {
  for (let seen = server.restores(); ; seen = server.restores()) {
    await clock.sleep(probeMs);
    if (server.restores() > seen) onRestored();
  }
};
const probeMs = 1_000;

const nothing = (): void => undefined;

/** Hosts of a simulation do not compress. */
const identity: Compression = {
  name: "gzip",
  compress: async (bytes) => Uint8Array.from(bytes),
  decompress: async (bytes) => Uint8Array.from(bytes),
};
