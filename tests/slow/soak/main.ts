/**
 * `bun run soak -- [--minutes 10] [--seed 1] [--rate 5000]`: a real core, PostgreSQL and a collector that reads lines of a file and
 * receives spans over OTLP/gRPC. SIGKILL ends core about every 20 s and the collector about every 15 s. In the end every line and every
 * accepted span is stored once. Prints one JSON object; exit code 1 when that does not hold, or when the memory of the collector grew
 * from run to run.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fraction, systemEntropy } from "../../../kit/entropy.ts";
import { memoryOf } from "../../../scripts/bench/support/processes.ts";
import { bundlePrograms } from "../../../scripts/bundle/bundle-programs.ts";
import { prepareIngestCore } from "../../../scripts/lab/ingest-core.ts";
import { findPorts } from "../../../scripts/ports.ts";
import { openEmbeddedDatabase } from "../../../scripts/postgres/embedded-database.ts";
import { createSeededEntropy } from "../../fakes/entropy.ts";
import { writeCollectorFiles } from "./collector-files.ts";
import { createKilledProgram } from "./killed-program.ts";
import { startLoad } from "./load.ts";
import { readStored, resultOf } from "./result.ts";

const hostId = "https://fleet.soak/d/host-1";

const soak = async (minutes: number, seed: number, rate: number) => {
  const random = createSeededEntropy(seed);
  const about = (seconds: number) => seconds * 1000 * (0.7 + 0.6 * fraction(random));
  await bundlePrograms();
  const dir = await mkdtemp(join(tmpdir(), "soak-"));
  const database = await openEmbeddedDatabase();
  const [ingestPort = 0, otlpPort = 0] = await findPorts(2, systemEntropy);
  const files = await prepareIngestCore(database.url, { ingestPort });
  const pair = await files.client(hostId);
  const { config, log } = await writeCollectorFiles(dir, { ...pair, caPem: files.caPem, otlpPort, ingestPort });

  const memory: number[] = [];
  const core = createKilledProgram(async () => (await files.start()).process);
  const collector = createKilledProgram(["run", "--config", config], {
    beforeKill: (pid) => memory.push(memoryOf(pid).nowMb),
  });
  try {
    await core.start();
    await collector.start();
    const load = startLoad(log, `127.0.0.1:${otlpPort}`, rate);
    const over = AbortSignal.timeout(minutes * 60_000);
    await Promise.all([core.killRepeatedly(() => about(20), over), collector.killRepeatedly(() => about(15), over)]);
    load.stop();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const stored = await readStored(database.sql, load, 120_000);
    const kills = { core: core.kills(), collector: collector.kills() };
    return { seed, minutes, rate, kills, ...resultOf(load, stored, memory) };
  } finally {
    await Promise.allSettled([core.end(), collector.end()]);
    await files.remove();
    await database.close();
    await rm(dir, { recursive: true });
  }
};

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: "1" },
    rate: { type: "string", default: "5000" },
  },
});
const result = await soak(Number(values.minutes), Number(values.seed), Number(values.rate));
console.log(JSON.stringify(result));
process.exitCode = result.ok ? 0 : 1;
