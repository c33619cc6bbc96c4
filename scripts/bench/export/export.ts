import { fileURLToPath } from "node:url";
import { Agent, request } from "undici";
import { encodeRequest } from "#functions/export/export-requests.ts";
import { gzipFast } from "#functions/export/otlp-client.ts";
import { type Committer, createCommitter } from "#functions/ingest/committer.ts";
import { createObjectWriter } from "#functions/ingest/object-writer.ts";
import { createNodeObjectReader } from "#functions/node/ingest/read-objects.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { openObjectStore } from "#functions/node/objects/open-store.ts";
import { claimStore } from "#functions/objects/claim-store.ts";
import type { Database } from "#functions/store/database/database.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import { packBlocks, readBlocks, readerSetup } from "#functions/store/export/read-envelopes.ts";
import { openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import { noteStore } from "#functions/store/ingest/objects.ts";
import type { StoredEnvelope } from "#functions/store/ingest/stored-envelope.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { mapValues } from "#kit/map-values.ts";
import { bundlePrograms, programPaths } from "#scripts/bundle/bundle-programs.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import {
  type EmbeddedDatabase,
  openEmbeddedDatabase,
} from "#scripts/postgres/embedded-database.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { type Bench, median, rounded } from "../support/bench.ts";
import { createCorpus, describeCorpus } from "../support/corpus/corpus.ts";
import { judgeGoals } from "../support/goals.ts";
import {
  type BenchProcess,
  cpuSecondsOf,
  memoryOf,
  startMeter,
  startProcess,
} from "../support/processes.ts";
import { createExportLoad, type ExportLoad, type LoadFigures } from "./export-load.ts";

const sinkProgram = fileURLToPath(new URL("./export-sink.ts", import.meta.url));

/**
 * Measures the bundled `svc-server export` against a sink over OTLP/HTTP: how fast it works off `--backlog` lines of the corpus, as after an
 * outage, while `--arrival` a second arrive; beside a bare loop that reads the same envelopes and sends them, eight requests in flight,
 * without order, position or retries. And what it costs ingest: commits at the arrival rate with and without it, in alternating pairs, and
 * commits as fast as they go. `--store directory`: the blocks are in objects of a temporary directory.
 */
export const exportBench: Bench = async (args) => {
  const defaults = { backlog: 600_000, arrival: 2_000, pairs: 3, seconds: 4, store: "postgres" };
  const options = readCommandOptions(defaults, args);
  const { backlog, arrival, pairs, seconds } = options;
  await using folder = await openTemporaryFolder("bench-export");
  await bundlePrograms(["svc-server"]);
  const lines = await createCorpus({ mix: "lines" });
  await using database = await openEmbeddedDatabase();
  const sink = await startProcess([sinkProgram], "ready");
  const port = Number(sink.records[0]?.port);
  const isInObjects = options.store === "directory";
  const store = await openExportStore(database, isInObjects ? `directory:${folder.path}` : null);
  const load = createExportLoad(store.committer, lines, isInObjects ? 512 : 16);
  try {
    await load.store(backlog);
    const floor = await measureFloor(store, port);
    const catchUp = await measureCatchUp({ database, port, load, arrival, backlog });
    const cost = await measureCost({ database, port, load, arrival, pairs, seconds });
    const judged = judgeGoals("export", {
      ratio: rounded(catchUp.rate / floor, 2),
      times_arrival: rounded(catchUp.rate / arrival, 2),
      slowdown: slowdownOf(cost.alone, cost.exporting),
      saturated_slowdown: slowdownOf(cost.saturated_alone, cost.saturated_exporting),
      exporter_mb: catchUp.exporter_rss_mb,
    });
    return {
      figure: rounded(catchUp.rate),
      unit: "envelopes/s delivered while others arrive",
      floor: rounded(floor),
      ratio: rounded(catchUp.rate / floor, 2),
      ...judged,
      details: {
        ...options,
        corpus: await describeCorpus(lines, "lines"),
        ...catchUp,
        ...cost,
      },
    };
  } finally {
    await store.close();
    await sink.stop("SIGKILL");
  }
};

/** Of the loop; a block has 50 envelopes or more. */
const blocksOfRequest = 16;

const slowdownOf = (alone: Pick<LoadFigures, "rate">, exporting: Pick<LoadFigures, "rate">) =>
  rounded(1 - exporting.rate / alone.rate, 3);

/** Where core stores envelopes, and an export finds them. */
interface ExportStore {
  committer: Pick<Committer, "commit">;
  /** Reads everything that is stored, as fast as its client does, a request's envelopes at a time. */
  readAll(): AsyncIterable<readonly StoredEnvelope[]>;
  close(): Promise<void>;
}

/** Opens the store of a database, with the blocks in objects unless `location` is null. */
const openExportStore = async (
  { url, sql }: EmbeddedDatabase,
  location: string | null,
): Promise<ExportStore> => {
  const connection = connectNodeDatabase({ url, connectionsMax: 2 });
  const { db } = connection;
  // Objects name the deployment that they belong to.
  await sql`insert into deployment (tenant_id, created_at) values (gen_random_uuid(), now())`;
  const committer = createCommitter({
    connect: () => openCommitClient(url),
    clock: systemClock,
    codec: zstdCodec,
    observe: { batch: () => undefined },
    objects: location === null ? undefined : await openWriter(db, location),
  });
  const needs = { codec: zstdCodec, objects: createNodeObjectReader(db) };
  return {
    committer,
    /** In ranges of 64 transactions. */
    async *readAll() {
      const [row] = await sql<{ first: string; last: string }[]>`
        select min(xid) as first, max(xid) + 1 as last from ingest_block`;
      if (row === undefined) throw new Error("nothing is stored");
      const client = await openCopyClient(url, readerSetup);
      const step = 64n;
      for (let from = BigInt(row.first); from < BigInt(row.last); from += step) {
        const range = { from, to: from + step, bytesMax: Number.POSITIVE_INFINITY };
        const read = await readBlocks(client, range);
        const blocks = read ? await packBlocks(read, needs) : [];
        for (let at = 0; at < blocks.length; at += blocksOfRequest)
          yield blocks.slice(at, at + blocksOfRequest).flatMap((block) => block.unpack());
      }
      await client.end();
    },
    async close() {
      await committer.close();
      await connection.close(1);
    },
  };
};

const openWriter = async (db: Database, location: string) => {
  const needs = { clock: systemClock, entropy: systemEntropy };
  const lineage = await readLineageName(db);
  const store = await openObjectStore(location, needs);
  await claimStore(store, { lineage, hasObjects: false });
  return createObjectWriter({
    ...needs,
    db,
    store,
    storeId: await noteStore(db, location),
    lineage,
    observe: { objectWrite: () => undefined },
  });
};

/** Reads everything and sends it; returns envelopes a second. */
const measureFloor = async ({ readAll }: ExportStore, port: number): Promise<number> => {
  const dispatcher = new Agent({ connections: 8, pipelining: 1 });
  const startedAt = performance.now();
  const sending = new Set<Promise<unknown>>();
  let read = 0;
  for await (const envelopes of readAll()) {
    read += envelopes.length;
    const send = async () => {
      const body = await gzipFast(encodeRequest({ envelopes }, true));
      const url = `http://127.0.0.1:${port}/v1/logs`;
      await (await request(url, { method: "POST", dispatcher, body })).body.dump();
    };
    const sent = send().finally(() => sending.delete(sent));
    sending.add(sent);
    if (sending.size >= 8) await Promise.race(sending);
  }
  await Promise.all(sending);
  const elapsed = (performance.now() - startedAt) / 1000;
  await dispatcher.close();
  return read / elapsed;
};

const startExport = ({ database, port }: Target): Promise<BenchProcess> =>
  startProcess([programPaths["svc-server"], "export"], "exporting", {
    PATH: process.env.PATH,
    SVC_DATABASE_URL: database.url,
    SVC_EXPORT_ENDPOINT: `http://127.0.0.1:${port}`,
  });

interface Target {
  database: EmbeddedDatabase;
  port: number;
  load: ExportLoad;
  arrival: number;
}

const exportedOf = async ({ sql }: EmbeddedDatabase): Promise<number> => {
  const [row] = await sql<{ exported: number }[]>`select exported::int from export_position`;
  return row?.exported ?? 0;
};

/** Starts an export behind the backlog, and returns how fast it delivers until it has sent as much, what arrives meanwhile included. */
const measureCatchUp = async (target: Target & { backlog: number }) => {
  const { database, load, arrival } = target;
  const exporter = await startExport(target);
  const meter = startMeter(() => ({
    exporter: cpuSecondsOf(exporter.pid),
    store_with_arrival: cpuSecondsOf(database.pid),
  }));
  let isBehind = true;
  const arriving = (async () => {
    while (isBehind) await load.paced(arrival, 0.5);
  })();
  let exported = 0;
  while (exported < target.backlog) {
    await systemClock.sleep(50);
    exported = await exportedOf(database);
  }
  const { cpu, seconds } = meter();
  const figures = {
    rate: exported / seconds,
    cpu_us_each: mapValues(cpu, (used) => rounded((used * 1e6) / exported, 1)),
    exporter_rss_mb: memoryOf(exporter.pid).peakMb,
  };
  isBehind = false;
  await arriving;
  await exporter.stop();
  return figures;
};

/** Commits with and without an export that keeps up, in alternating pairs; returns medians. */
const measureCost = async (target: Target & { pairs: number; seconds: number }) => {
  const { database, load, arrival, pairs, seconds } = target;
  const runs = {
    alone: [] as LoadFigures[],
    exporting: [] as LoadFigures[],
    saturated_alone: [] as LoadFigures[],
    saturated_exporting: [] as LoadFigures[],
  };
  await load.paced(arrival, 1);
  for (let pair = 0; pair < pairs; pair++) {
    runs.alone.push(await load.paced(arrival, seconds));
    runs.saturated_alone.push(await load.unpaced(2));
    const exporter = await startExport(target);
    // Until it has exported what was stored before it started.
    let last = -1;
    for (let now = await exportedOf(database); now !== last; now = await exportedOf(database)) {
      last = now;
      await systemClock.sleep(1_000);
    }
    runs.exporting.push(await load.paced(arrival, seconds));
    runs.saturated_exporting.push(await load.unpaced(2));
    await exporter.stop();
  }
  return mapValues(runs, (figures) => ({
    rate: rounded(median(figures.map(({ rate }) => rate))),
    ack_p50_ms: rounded(median(figures.map(({ p50 }) => p50)), 1),
    ack_p99_ms: rounded(median(figures.map(({ p99 }) => p99)), 1),
  }));
};
