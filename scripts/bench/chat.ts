import { authenticationIdentity, person } from "../../drizzle/schema/operator.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy, uuidv7 } from "../../kit/entropy.ts";
import { mapValues } from "../../kit/map-values.ts";
import { bundlePrograms, programPaths } from "../bundle/bundle-programs.ts";
import {
  type ChatAnswer,
  type ChatClient,
  type SendChat,
  startConversation,
} from "../lab/chat-client.ts";
import { type IngestCore, prepareIngestCore } from "../lab/ingest-core.ts";
import { mintBridgeToken, people, testTenantId } from "../lab/people.ts";
import { quantile } from "../lab/quantile.ts";
import type { EmbeddedDatabase } from "../postgres/embedded-database.ts";
import { openFleetDatabase, seedLargeFleet } from "./fleet/large-fleet.ts";
import { connectSender } from "./ingest/ingest-sender.ts";
import { type Bench, readBenchOptions, rounded } from "./support/bench.ts";
import { createCorpus, describeCorpus } from "./support/corpus/corpus.ts";
import { judgeGoals } from "./support/goals.ts";
import { cpuSecondsOf, memoryOf, startMeter } from "./support/processes.ts";

/** A question starts this long after the answer before it: a person reads. */
const pauseMs = 1_000;
/** The mock has one answer. */
const question = "Which hosts need attention, and why?";
const warmingRounds = 10;

/**
 * Measures the chat agent with the mock on a fleet of `--collectors` hosts: the time to the first word, to the end of the
 * answer, and ingest's ack p99 while `--conversations` people ask one question after another, against that alone. Core is a process of
 * its own on a durable PostgreSQL. The floor is a request that writes one row: creating a conversation.
 */
export const chatBench: Bench = async (args) => {
  const defaults = { collectors: 100_000, conversations: 50, seconds: 10, rounds: 40 };
  const { collectors, conversations: count, seconds, rounds } = readBenchOptions(args, defaults);
  const bundled = bundlePrograms();
  await using database = await openFleetDatabase(systemClock.now());
  await seedLargeFleet(database, collectors, systemClock);
  await bundled;
  const secret = systemEntropy.bytes(32).toHex();
  const usual = { SVC_AUTH_TOKEN_SECRET: secret, SVC_COLLECTOR_MIN_VERSION: "1.0.0" };
  const start = (env: Record<string, string>) =>
    prepareIngestCore(database.url, {
      env: { ...usual, ...env },
      program: programPaths["svc-server"],
    });
  const without = await idleOf(await start({}));
  const files = await start({ SVC_INFERENCE_CHAT_MODEL: "mock" });
  const startedAt = performance.now();
  const core = await files.start();
  const readySeconds = rounded((performance.now() - startedAt) / 1000, 2);
  const pid = core.process.pid ?? 0;
  try {
    await systemClock.sleep(idleMs);
    const idleMb = memoryOf(pid).nowMb;
    const sendAs = (userId: string): SendChat => {
      return async (path, init) => {
        const token = await mintBridgeToken(secret, { sub: userId, now: systemClock.now() });
        const headers = { ...init?.headers, Authorization: `Bearer ${token}` };
        return fetch(`http://127.0.0.1:${core.port}/v1/chat${path}`, { ...init, headers });
      };
    };
    const { answers, floor } = await askAlone(sendAs(people.auditor.userId), rounds);
    const first = Float64Array.from(answers.map(({ firstTokenMs }) => firstTokenMs));
    const userIds = await insertAuditors(database, count);
    const clients = await Promise.all(userIds.map((userId) => startConversation(sendAs(userId))));
    const load = await measureAcks(
      { files, port: core.ingestPort, pid, database, seconds },
      clients,
    );
    const figure = rounded(quantile(first, 0.95), 1);
    const judged = judgeGoals("chat", {
      first_token_ms: figure,
      ack_ratio: load.ratio,
      failed: load.failed,
    });
    return {
      figure,
      unit: "ms to the first word",
      floor,
      ratio: rounded(figure / floor, 1),
      ...judged,
      details: {
        collectors,
        first_token_ms: {
          p50: rounded(quantile(first, 0.5), 1),
          p95: figure,
          max: rounded(quantile(first, 1), 1),
        },
        answer_ms: rounded(
          quantile(Float64Array.from(answers.map(({ totalMs }) => totalMs)), 0.95),
          1,
        ),
        conversations: { count, ...load },
        core: {
          ready_seconds: readySeconds,
          idle_mb: idleMb,
          idle_mb_without_chat: without,
          peak_mb: memoryOf(pid).peakMb,
        },
        floor: "creating a conversation: one request that writes one row",
      },
    };
  } finally {
    core.process.kill("SIGKILL");
    await files.remove();
  }
};

const idleMs = 5_000;

/** Starts a core and returns its memory once it has been idle. */
const idleOf = async (files: IngestCore): Promise<number> => {
  const core = await files.start();
  await systemClock.sleep(idleMs);
  const { nowMb } = memoryOf(core.process.pid ?? 0);
  core.process.kill("SIGKILL");
  await files.remove();
  return nowMb;
};

/** Asks in conversations of their own, one after the other. */
const askAlone = async (send: SendChat, rounds: number) => {
  const answers: ChatAnswer[] = [];
  const floors: number[] = [];
  // The first ones warm caches and compilers up.
  for (let round = -warmingRounds; round < rounds; round++) {
    const startedAt = performance.now();
    const conversation = await startConversation(send);
    const floor = performance.now() - startedAt;
    const answer = complete(await conversation.ask(question));
    if (round < 0) continue;
    answers.push(answer);
    floors.push(floor);
  }
  return { answers, floor: rounded(quantile(Float64Array.from(floors), 0.95), 1) };
};

/** The mock reports a failed query in its answer. */
const complete = (answer: ChatAnswer): ChatAnswer => {
  const failed = answer.results.find(({ kind }) => kind === "error");
  if (failed) throw new Error(JSON.stringify(failed));
  return answer;
};

/** Measures the acks of a stream that has one frame in flight: alone, with the conversations, and alone again. */
const measureAcks = async (
  {
    files,
    port,
    pid,
    database,
    seconds,
  }: { files: IngestCore; port: number; pid: number; database: EmbeddedDatabase; seconds: number },
  clients: readonly ChatClient[],
) => {
  const hostId = `spiffe://fleet.bench/${crypto.randomUUID()}`;
  const sender = await connectSender({ port, ca: files.caPem, ...(await files.client(hostId)) });
  const records = await createCorpus({ mix: "mixed" });
  const stream = await sender.openStream({
    hostId,
    envelopesOfFrame: 20,
    records,
    framesInFlight: 1,
  });
  const measure = async (): Promise<number> => {
    const latencies: number[] = [];
    stream.run((latency) => latencies.push(latency));
    await systemClock.sleep(seconds * 1_000);
    await stream.stop();
    return rounded(quantile(Float64Array.from(latencies), 0.99), 1);
  };
  await measure();
  const alone = [await measure()];
  const stop = new AbortController();
  const meter = startMeter(() => ({
    core: cpuSecondsOf(pid),
    database: cpuSecondsOf(database.pid),
  }));
  const asked = askUntil(clients, stop.signal);
  const among = await measure();
  const { cpu } = meter();
  stop.abort();
  const { answers, failed } = await asked;
  alone.push(await measure());
  sender.close();
  return {
    corpus: await describeCorpus(records, "mixed"),
    ack_p99_ms: { before: alone[0], among, after: alone[1] },
    ratio: rounded((2 * among) / alone.reduce((sum, each) => sum + each), 2),
    answered: answers.length,
    failed,
    first_token_p95_ms: rounded(
      quantile(Float64Array.from(answers.map(({ firstTokenMs }) => firstTokenMs)), 0.95),
    ),
    answer_p95_ms: rounded(
      quantile(Float64Array.from(answers.map(({ totalMs }) => totalMs)), 0.95),
    ),
    cpu_seconds: mapValues(cpu, (used) => rounded(used, 1)),
  };
};

/** Asks in each conversation until the signal aborts. */
const askUntil = async (clients: readonly ChatClient[], signal: AbortSignal) => {
  const answers: ChatAnswer[] = [];
  let failed = 0;
  await Promise.all(
    clients.map(async (client) => {
      while (!signal.aborted) {
        const answer = await client.ask(question);
        if (answer.results.some(({ kind }) => kind === "error")) failed += 1;
        answers.push(answer);
        await systemClock.sleep(pauseMs, signal).catch(() => undefined);
      }
    }),
  );
  return { answers, failed };
};

/** Writes `count` people who may read the fleet: a person has at most two answers at a time. */
const insertAuditors = async ({ db }: EmbeddedDatabase, count: number): Promise<string[]> => {
  const userIds = Array.from({ length: count }, () =>
    uuidv7({ clock: systemClock, entropy: systemEntropy }),
  );
  const named = userIds.map((userId, at) => ({ userId, subject: `bench-${at}` }));
  await db.insert(person).values(
    named.map(({ userId, subject }) => ({
      userId,
      primaryEmail: `${subject}@example.test`,
      displayName: subject,
      status: "active" as const,
      scopes: ["read" as const, "audit" as const],
      syncedAt: new Date(systemClock.now()),
    })),
  );
  await db
    .insert(authenticationIdentity)
    .values(named.map(({ userId, subject }) => ({ tenantId: testTenantId, subject, userId })));
  return userIds;
};
