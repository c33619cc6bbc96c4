import { authenticationIdentity, person } from "#drizzle/schema/operator.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy, uuidv7 } from "#kit/entropy.ts";
import { mapValues } from "#kit/map-values.ts";
import { bundlePrograms, programPaths } from "../bundle/bundle-programs.ts";
import {
  type ChatAnswer,
  type ChatClient,
  type SendChat,
  startConversation,
} from "../lab/chat-client.ts";
import { mintBridgeToken, people, seedPeople, testTenantId } from "../lab/people.ts";
import type { EmbeddedDatabase } from "../postgres/embedded-database.ts";
import { seedLargeFleet } from "./fleet/large-fleet.ts";
import { openStreams } from "./ingest/ingest-sender.ts";
import { type Bench, describeSamples, readBenchOptions, rounded } from "./support/bench.ts";
import { type BenchCore, startBenchCore } from "./support/bench-core.ts";
import { createCorpus, describeCorpus } from "./support/corpus/corpus.ts";
import { judgeGoals } from "./support/goals.ts";
import { memoryOf, startMeter } from "./support/processes.ts";

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
  await bundlePrograms(undefined, ["svc-server"]);
  const secret = systemEntropy.bytes(32).toHex();
  let userIds: string[] = [];
  await using core = await startBenchCore({
    program: programPaths["svc-server"],
    env: {
      SVC_AUTH_TOKEN_SECRET: secret,
      SVC_COLLECTOR_MIN_VERSION: "1.0.0",
      SVC_INFERENCE_CHAT_MODEL: "mock",
    },
    seed: async (database) => {
      await seedPeople(database.db, systemClock.now());
      await seedLargeFleet(database, collectors, systemClock);
      userIds = await insertAuditors(database, count);
    },
  });
  await systemClock.sleep(idleMs);
  const idleMb = memoryOf(core.pid).nowMb;
  const sendAs =
    (userId: string): SendChat =>
    async (path, init) => {
      const token = await mintBridgeToken(secret, { sub: userId, now: systemClock.now() });
      const headers = { ...init?.headers, Authorization: `Bearer ${token}` };
      return fetch(`http://127.0.0.1:${core.httpPort}/v1/chat${path}`, { ...init, headers });
    };
  const { answers, floor } = await askAlone(sendAs(people.auditor.userId), rounds);
  const clients = await Promise.all(userIds.map((userId) => startConversation(sendAs(userId))));
  const load = await measureAcks(core, clients, seconds);
  const first = describeSamples(answers.map(({ firstTokenMs }) => firstTokenMs));
  return {
    figure: first.p95,
    unit: "ms to the first word",
    floor,
    ratio: rounded(first.p95 / floor, 1),
    ...judgeGoals("chat", {
      first_token_ms: first.p95,
      ack_ratio: load.ratio,
      failed: load.failed,
    }),
    details: {
      collectors,
      first_token_ms: first,
      answer_ms: describeSamples(answers.map(({ totalMs }) => totalMs)).p95,
      conversations: { count, ...load },
      core: { idle_mb: idleMb, peak_mb: core.peakMb() },
      floor: "creating a conversation: one request that writes one row",
    },
  };
};

const idleMs = 5_000;

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
  return { answers, floor: describeSamples(floors).p95 };
};

/** The mock reports a failed query in its answer. */
const complete = (answer: ChatAnswer): ChatAnswer => {
  const failed = answer.results.find(({ kind }) => kind === "error");
  if (failed) throw new Error(JSON.stringify(failed));
  return answer;
};

/** Measures the acks of a stream that has one frame in flight: alone, with the conversations, and alone again. */
const measureAcks = async (core: BenchCore, clients: readonly ChatClient[], seconds: number) => {
  const records = await createCorpus({ mix: "mixed" });
  const load = { streams: 1, records, envelopesOfFrame: 20, framesInFlight: 1 };
  const { senders, streams } = await openStreams(core, load, 1);
  const measure = async (): Promise<number> => {
    const latencies: number[] = [];
    for (const stream of streams) stream.run((latency) => latencies.push(latency));
    await systemClock.sleep(seconds * 1_000);
    await Promise.all(streams.map((stream) => stream.stop()));
    return describeSamples(latencies).p99;
  };
  await measure();
  const before = await measure();
  const stop = new AbortController();
  const meter = startMeter(core.cpu);
  const asked = askUntil(clients, stop.signal);
  const among = await measure();
  const { cpu } = meter();
  stop.abort();
  const { answers, failed } = await asked;
  const after = await measure();
  for (const sender of senders) sender.close();
  return {
    corpus: await describeCorpus(records, "mixed"),
    ack_p99_ms: { before, among, after },
    ratio: rounded((2 * among) / (before + after), 2),
    answered: answers.length,
    failed,
    first_token_p95_ms: describeSamples(answers.map(({ firstTokenMs }) => firstTokenMs)).p95,
    answer_p95_ms: describeSamples(answers.map(({ totalMs }) => totalMs)).p95,
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
