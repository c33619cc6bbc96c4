import { hash } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { equalBytes } from "#kit/bytes.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import {
  BlockEncoding,
  BlockSchema,
  type Envelope,
  EnvelopesSchema,
  ForwardRequestSchema,
  FrameSchema,
  OpenSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestLog } from "#tests/fakes/log.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import {
  ingestSteps,
  makeEnvelope,
  RowQueue,
  rowLimits,
  type Sending,
  type StoredRow,
} from "#tests/support/ingest/row-queues.ts";
import { isSlow, runsOf } from "#tests/support/is-slow.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import { readStoredBlock } from "../store/ingest/stored-envelope.ts";
import { examineSent } from "./examine-block.ts";
import { examineFrame } from "./examine-frame.ts";
import { readFrame } from "./fast-path/create-fast-path.ts";
import { createPostgresSink } from "./postgres-sink.ts";

const database = await useTestDatabase();
const { sql, db } = database.connect();
let now = Date.UTC(2026, 10, 23, 6);
const startCore = () =>
  createPostgresSink({
    db,
    codec: zstdCodec,
    entropy: systemEntropy,
    log: createTestLog(),
    databaseUrl: async () => database.url,
    clock: { ...systemClock, now: () => now },
    observe: { batch: () => undefined, gap: () => undefined, implausibleGap: () => undefined },
  });
const cores = [startCore(), startCore()] as const;
afterAll(() => Promise.all(cores.map((core) => core.close())));

/** Examines what a sender made of envelopes, as core does with the form. */
const examine = (
  form: Sending["form"],
  { hostId, queueId }: RowQueue,
  previousSequence: bigint,
  envelopes: Envelope[],
) => {
  const frame = create(FrameSchema, { hostId, queueId, previousSequence, envelopes });
  const reading = { identity: hostId, limits: rowLimits, receivedAt: now };
  if (form === "decoded frame") return { examined: examineFrame(frame, hostId, rowLimits, now) };
  if (form === "frame") {
    const message = toBinary(
      ForwardRequestSchema,
      create(ForwardRequestSchema, { message: { case: "frame", value: frame } }),
    );
    return { examined: readFrame(message, reading) ?? examineFrame(frame, hostId, rowLimits, now) };
  }
  const raw = toBinary(EnvelopesSchema, create(EnvelopesSchema, { envelopes }));
  const data = form === "zstd block" ? zstdCodec.compress(raw) : raw;
  const encoding = form === "zstd block" ? BlockEncoding.ZSTD : BlockEncoding.NONE;
  const block = create(BlockSchema, {
    hostId,
    queueId,
    previousSequence,
    data,
    rawBytes: raw.length,
    encoding,
    lastSequence: envelopes.at(-1)?.sequence ?? previousSequence,
    envelopes: envelopes.length,
  });
  const examined = examineSent(block, { ...reading, codec: zstdCodec });
  return { examined, ...(form === "zstd block" && { data }) };
};

interface FoundBlock {
  host_id: string;
  queue_id: Uint8Array;
  xid: string;
  first_sequence: string;
  last_sequence: string;
  envelopes: number;
  kinds: string[];
  raw_bytes: number;
  payload_bytes: number;
  observed_from: number | null;
  observed_to: number | null;
  digest: Uint8Array;
  encoding: number;
  data: Uint8Array;
}

const microseconds = ({ observedAt }: Envelope) =>
  observedAt ? observedAt.seconds * 1_000_000n + BigInt(Math.floor(observedAt.nanos / 1000)) : null;

/** Checks the figures of a block, and returns its envelopes. */
const readBlock = (block: FoundBlock) => {
  const { host_id: hostId, queue_id: queueId, raw_bytes: rawBytes, encoding, data } = block;
  const envelopes = readStoredBlock(
    { hostId, queueId, receivedAt: 0n, rawBytes, encoding, data },
    zstdCodec,
  );
  const seconds = envelopes.flatMap(({ observedAt }) =>
    observedAt === null ? [] : Math.floor(Number(observedAt) / 1e6),
  );
  const at = (ms: number) => (seconds.length === 0 ? null : ms);
  expect({
    ...block,
    digest: Buffer.from(block.digest).toString("hex"),
    kinds: block.kinds.toSorted(),
  }).toMatchObject({
    digest: `01${hash("sha256", data)}`,
    first_sequence: String(envelopes[0]?.sequence),
    last_sequence: String(envelopes.at(-1)?.sequence),
    envelopes: envelopes.length,
    kinds: [...new Set(envelopes.map(({ kind }) => kind))].sort(),
    payload_bytes: envelopes.reduce((sum, { payload }) => sum + payload.length, 0),
    observed_from: at(Math.min(...seconds) * 1000),
    observed_to: at((Math.max(...seconds) + 1) * 1000),
  });
  return envelopes.map(({ receivedAt: _, payload, ...rest }) => ({
    ...rest,
    payload: Buffer.from(payload).toString(),
  }));
};

/** Checks that the blocks of queues have what their rows have, and counts and cursors as well. */
const expectStored = async (
  queues: readonly RowQueue[],
  whole: readonly Uint8Array[],
  storedBefore: number,
) => {
  const hosts = [...new Set(queues.map(({ hostId }) => hostId))];
  const blocks = await sql<FoundBlock[]>`
    select *, xid::text, first_sequence::text, last_sequence::text,
      (extract(epoch from observed_from) * 1000)::float8 as observed_from, (extract(epoch from observed_to) * 1000)::float8 as observed_to
    from ingest_block where host_id in ${sql(hosts)} order by host_id, queue_id, ingest_block.first_sequence`;
  for (const { hostId, queueId, rows, cursor, session } of queues) {
    const own = blocks.filter(
      (block) => block.host_id === hostId && equalBytes(block.queue_id, queueId),
    );
    expect(own.flatMap(readBlock)).toEqual(
      rows.map(({ envelope }) => ({
        hostId,
        queueId: Buffer.from(queueId),
        observedAt: microseconds(envelope),
        sequence: envelope.sequence,
        kind: envelope.kind,
        source: envelope.source,
        attributes: envelope.attributes,
        payload: Buffer.from(envelope.payload).toString(),
      })),
    );
    const ids = own.map(({ xid }) => BigInt(xid));
    expect(ids.every((id, index) => index === 0 || id >= (ids[index - 1] ?? id))).toBe(true);
    const [found] =
      await sql`select cursor::text, session_id from ingest_cursor where host_id = ${hostId} and queue_id = ${queueId}`;
    expect(BigInt(found?.cursor ?? 0)).toBe(cursor);
    expect(found?.session_id ?? null).toEqual(session ? Buffer.from(session) : null);
  }
  for (const data of whole)
    expect(blocks.filter((block) => equalBytes(block.data, data))).toHaveLength(1);
  const counts =
    await sql`select host_id, kind, (extract(epoch from hour) * 1000)::float8 as hour, envelopes::int, payload_bytes::int
    from ingest_hour where host_id in ${sql(hosts)}`;
  expect(counts.map((count) => JSON.stringify(Object.values(count))).sort()).toEqual(
    countRows(queues),
  );
  const all = queues.reduce((sum, { rows }) => sum + rows.length, 0);
  expect((await countStored()) - storedBefore).toBe(all);
};

/** Counts rows by host, kind and hour, as `ingest_hour` has them. */
const countRows = (queues: readonly RowQueue[]) => {
  const rows = queues.flatMap((queue) =>
    queue.rows.map((row) => ({ ...row, hostId: queue.hostId })),
  );
  const kindOf = ({ envelope: { kind } }: StoredRow) => (kind.startsWith("own") ? "other" : kind);
  return [...Map.groupBy(rows, (row) => JSON.stringify([row.hostId, kindOf(row), row.hour]))]
    .map(([key, some]) => {
      const bytes = some.reduce((sum, { envelope }) => sum + envelope.payload.length, 0);
      return JSON.stringify([...JSON.parse(key), some.length, bytes]);
    })
    .sort();
};

const countStored = async () => {
  const [row] = await sql`select coalesce(sum(envelopes), 0)::int as stored from ingest_stored`;
  return row?.stored;
};

const openQueue = async (model: RowQueue, core: 0 | 1, isCopy: boolean) => {
  const sessionId = systemEntropy.bytes(16);
  const known = isCopy ? model.sessions.slice(0, -1) : model.sessions;
  const claims = create(OpenSchema, {
    hostId: model.hostId,
    queueId: model.queueId,
    sessionId,
    ackedThrough: model.cursor,
    previousSessionIds: known.slice(-16),
  });
  const opened = await cores[core].open(claims).catch((error: unknown) => error);
  if (isCopy && model.session) return void expect(opened).toMatchObject({ code: "queue_forked" });
  expect(opened).toMatchObject({ cursor: model.cursor });
  model.session = sessionId;
  model.sessions.push(sessionId);
};

const stranger = new Uint8Array(16).fill(255);

const sendTo = async (
  model: RowQueue,
  { does, core = 0, sent }: { does: string; core?: 0 | 1; sent: readonly Sending[] },
) => {
  // Which core stores a frame is not known: nothing may depend on it.
  const isToBoth = does === "send to both";
  let last = model.cursor;
  const frames = sent.map(({ offset, form, envelopes, session }) => {
    last += BigInt(isToBoth ? Math.min(0, offset) : offset);
    const previous = last < 0n ? 0n : last;
    last = previous;
    const made = envelopes.map(({ step, fate }) => {
      last += BigInt(step);
      return { fate, envelope: makeEnvelope(last, fate) };
    });
    const examined = examine(
      form,
      model,
      previous,
      made.map(({ envelope }) => envelope),
    );
    const sessions = {
      own: model.session,
      earlier: model.sessions.at(-2) ?? stranger,
      none: undefined,
    };
    return {
      previous,
      made,
      form,
      sessionId: isToBoth ? undefined : sessions[session],
      ...examined,
    };
  });
  const commitTo = (to: 0 | 1) =>
    frames.map(({ examined, sessionId }) =>
      cores[to].commit({ ...examined.frame, sessionId }, examined.bytes),
    );
  const outcomes = await Promise.all(isToBoth ? [...commitTo(0), ...commitTo(1)] : commitTo(core));
  return frames.map(({ previous, made, sessionId, data }, index) => {
    const before = model.cursor;
    const { isWhole, ...expected } = model.commit(previous, made, sessionId, now);
    if (!isToBoth) expect(outcomes[index]).toMatchObject(expected);
    const isCut = previous < before && model.cursor > before;
    return { what: isCut ? "cut" : expected.outcome, whole: isWhole ? data : undefined };
  });
};

it("stores of any mix of frames and blocks what the same envelopes as rows would have stored", async () => {
  const seen: Record<string, number> = {};
  let runs = 0;
  const property = fc.asyncProperty(
    fc.array(ingestSteps, { minLength: 1, maxLength: 12 }),
    async (steps) => {
      const run = ++runs;
      const storedBefore = await countStored();
      const queues = [0, 1, 2].map(
        (index) => new RowQueue(`b'"\\日-${run}-${index % 2}`, new Uint8Array(16).fill(index + 1)),
      );
      const whole: Uint8Array[] = [];
      for (const each of steps) {
        now += 20 * 60_000;
        const model = queues[each.queue] as RowQueue;
        if (each.does === "open") await openQueue(model, each.core, each.isCopy);
        else
          for (const sent of await sendTo(model, each)) {
            seen[sent.what] = (seen[sent.what] ?? 0) + 1;
            if (sent.whole) whole.push(sent.whole);
          }
      }
      await expectStored(queues, whole, storedBefore);
      seen.whole = (seen.whole ?? 0) + whole.length;
    },
  );
  await fc.assert(property, { numRuns: isSlow ? 120 : 60, seed: 1 });
  for (const what of ["cut", "committed", "sequence_gap", "session_superseded", "whole"])
    expect(seen[what] ?? 0, what).toBeGreaterThan(runsOf(25));
});
