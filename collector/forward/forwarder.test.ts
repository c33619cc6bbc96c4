import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import {
  type ForwardRequest,
  ForwardRequestSchema,
  ForwardResponseSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { encodePem } from "#proto/pem.ts";
import { createTestCa, createTestKey, issueTestCertificate } from "#scripts/lab/ca/test-pki.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { type IngestPeer, peerError, startIngestPeer } from "#tests/fakes/ingest-peer.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { eventually } from "#tests/support/eventually.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue } from "#tests/support/queue.ts";
import type { Queue } from "../queue/queue.ts";
import type { QueueAccounts } from "../queue/queue-accounts.ts";
import { createConnector, createForwarder, type ForwarderOptions } from "./forwarder.ts";
import type { GrpcCall } from "./grpc-stream.ts";

let dir: string;
let peer: IngestPeer;
let queue: Queue;
let running: { stop: AbortController; done: Promise<void> } | undefined;
const log = createTestLog();
/** Real time, with backoffs of at most 20 ms. */
const clock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 20), signal),
};

const forward = (options: Partial<ForwarderOptions> = {}) => {
  const forwarder = createForwarder({
    connect: createConnector(peer.endpoint, peer.tls, systemClock),
    hostId: peer.hostId,
    queue,
    batch: { maxEnvelopes: 10, maxBytes: 100_000, lingerMs: 1 },
    maxInFlightFrames: 8,
    compression: "gzip",
    clock,
    entropy: createSeededEntropy(3),
    log,
    ...options,
  });
  const stop = new AbortController();
  running = { stop, done: forwarder.run(stop.signal) };
  return forwarder;
};

const stop = async () => {
  running?.stop.abort(new Error("stop"));
  await running?.done;
  running = undefined;
};

/** Opens the queue anew, to a peer whose acks arrive. */
const restart = async () => {
  await stop();
  await queue.close();
  queue = openTestQueue(dir);
  delete peer.behaviour.afterCommit;
};

const records = (from: number, to: number, size = 20) =>
  Array.from({ length: to - from + 1 }, (_, index) => ({
    kind: "log_line",
    observedAtMs: 1_700_000_000_000 + from + index,
    source: "file",
    attributes: { number: `${from + index}` },
    payload: new TextEncoder().encode(`${from + index}`.padEnd(size, "x")),
  }));

const add = (...range: Parameters<typeof records>) => queue.append(records(...range));

const numbers = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);
const storedNumbers = () => peer.stored.map(({ attributes }) => Number(attributes.number));
const empty = () => eventually(() => expect(queue.stats().records).toBe(0));

const delivered = async (from: number, to: number) => {
  await empty();
  expect(storedNumbers()).toEqual(numbers(from, to));
};
const connectWith = (tls: Partial<Parameters<typeof createConnector>[1]>) =>
  createConnector(peer.endpoint, { ...peer.tls, ...tls }, systemClock);
const loseAcks = () => {
  peer.behaviour.afterCommit = async () => {
    throw peerError(Code.Unavailable, "overloaded");
  };
};
const rejectThrees = (reason: string) => {
  peer.behaviour.reject = ({ sequence }) => (sequence % 10n === 3n ? reason : undefined);
};
/** Waits until the queue is empty: core has stored all but the threes, which are dead letters. */
const deliveredWithoutThrees = async (to: number) => {
  await empty();
  const all = numbers(1, to);
  expect(storedNumbers()).toEqual(all.filter((number) => number % 10 !== 3));
  expect(queue.stats()).toMatchObject({ deadLetters: to / 10, droppedRecordsTotal: 0 });
};
/** Waits until `forwarder` reports this error. */
const reports = (forwarder: ReturnType<typeof forward>, error: RegExp) =>
  eventually(() => expect(forwarder.status().lastError).toMatch(error));

beforeEach(async () => {
  dir = newFolder();
  peer = await startIngestPeer();
  queue = openTestQueue(dir);
});

afterEach(async () => {
  await stop();
  await queue.close();
  await peer.close();
});

describe("forwarding", () => {
  it("delivers every record once, in order and unchanged, and removes records only by acks", async () => {
    await add(1, 95);
    const forwarder = forward();
    await delivered(1, 95);
    expect(peer.stored[94]).toMatchObject({
      sequence: 95n,
      kind: "log_line",
      observedAt: { seconds: 1_700_000_000n, nanos: 95_000_000 },
      source: "file",
      payload: new TextEncoder().encode("95".padEnd(20, "x")),
    });
    expect(forwarder.status()).toMatchObject({
      connected: true,
      lastError: null,
      lastAckAt: expect.any(Number),
    });
    await add(96, 96);
    await empty();
    expect(storedNumbers()).toHaveLength(96);
  });

  it("keeps at most maxInFlightFrames unacknowledged", async () => {
    const gate = Promise.withResolvers<void>();
    peer.behaviour.beforeCommit = () => gate.promise;
    await add(1, 400);
    forward({ maxInFlightFrames: 3 });
    await eventually(() => expect(peer.inFlight).toBe(3));
    await systemClock.sleep(50);
    expect(peer.inFlight).toBe(3);
    gate.resolve();
    await delivered(1, 400);
  });

  it("G5: loses nothing and stores nothing twice when connections break at any time", async () => {
    let commits = 0;
    peer.behaviour.beforeCommit = async () => {
      commits += 1;
      if (commits % 5 === 0) peer.disconnect();
    };
    peer.behaviour.afterCommit = async () => {
      if (commits % 7 === 0) throw peerError(Code.Unavailable, "overloaded");
    };
    forward();
    for (let from = 1; from <= 600; from += 100) await add(from, from + 99);
    await delivered(1, 600);
  });

  it("resumes from core's cursor after a restart, also when the last acks were lost", async () => {
    await add(1, 30);
    loseAcks();
    forward();
    await eventually(() => expect(peer.stored.length).toBeGreaterThanOrEqual(10));
    await restart();
    await add(31, 40);
    forward();
    await delivered(1, 40);
  });

  it("sends the remaining records when core has lost its cursor", async () => {
    await add(1, 20);
    await queue.ack(10);
    forward();
    await delivered(11, 20);
  });

  it.each([
    ["when core has acknowledged more than the queue ever stored", 1000, 5],
    ["after a restored disk, also when new records have reached the lost sequences", 8, 20],
  ])("Q11: changes the queue id %s", async (_, cursor, last) => {
    await add(1, 5);
    const before = queue.queueId.toHex();
    peer.cursors.set(before, cursor);
    forward();
    if (last > 5) await add(6, last);
    await delivered(1, last);
    expect(queue.queueId.toHex()).not.toBe(before);
  });

  it("Q11: changes the queue id when an ack covers more than this process sent, as a clone resumed from memory has sent in its session", async () => {
    await add(1, 5);
    const before = queue.queueId.toHex();
    forward();
    await empty();
    // The clone sends 6 to 12 under the same session: core takes this machine's 6 to 8 for resends.
    peer.behaviour.beforeCommit = async () => {
      peer.behaviour.beforeCommit = async () => undefined;
      peer.cursors.set(before, 12);
    };
    await add(6, 8);
    await delivered(1, 8);
    expect(queue.queueId.toHex()).not.toBe(before);
    expect(queue.stats()).toMatchObject({ forks: 1, droppedRecordsTotal: 0 });
  });

  it("Q11: retries to change the queue id while the disk is full, and loses nothing", async () => {
    await add(1, 5);
    const before = queue.queueId.toHex();
    peer.cursors.set(before, 9);
    let failures = 3;
    const fork = () => {
      if (failures-- > 0) throw new Error("database or disk is full");
      queue.fork();
    };
    forward({
      queue: new Proxy(queue, {
        get: (target, name) => (name === "fork" ? fork : Reflect.get(target, name)),
      }),
    });
    await empty();
    expect(failures).toBe(-1);
    expect(storedNumbers()).toEqual(numbers(1, 5));
    expect(queue.queueId.toHex()).not.toBe(before);
    expect(log.text()).toContain("the queue cannot be written");
  });
});

describe("refusals", () => {
  it("Q9: moves rejected records to the dead letters, counts them, and delivers the rest", async () => {
    rejectThrees("payload_too_large");
    await add(1, 30);
    forward();
    await deliveredWithoutThrees(30);
  });

  it("Q9: receives a rejection again when its ack was lost with the connection, and stores nothing twice", async () => {
    let lost = 0;
    rejectThrees("payload_too_large");
    peer.behaviour.afterCommit = async () => {
      if (++lost <= 4) peer.disconnect();
    };
    await add(1, 60);
    forward();
    await deliveredWithoutThrees(60);
  });

  it("Q9: receives a rejection again after a restart, while new records arrive", async () => {
    rejectThrees("kind_invalid");
    loseAcks();
    await add(1, 30);
    forward({ batch: { maxEnvelopes: 30, maxBytes: 100_000, lingerMs: 1 } });
    await eventually(() => expect(peer.cursors.get(queue.queueId.toHex())).toBe(30));
    await stop();
    expect(queue.stats()).toMatchObject({ records: 30, deadLetters: 0 });
    await restart();
    forward();
    await add(31, 50);
    await deliveredWithoutThrees(50);
  });

  it("sends smaller frames when core rejects them as too large, and moves a single rejected envelope to the dead letters", async () => {
    peer.behaviour.frameBytesMax = 3_000;
    await add(1, 20, 200);
    await add(21, 21, 5_000);
    await add(22, 60, 200);
    forward({ batch: { maxEnvelopes: 50, maxBytes: 100_000, lingerMs: 1 } });
    await empty();
    expect(storedNumbers()).toEqual(numbers(1, 60).filter((number) => number !== 21));
    expect(queue.stats()).toMatchObject({ deadLetters: 1, droppedRecordsTotal: 0 });
    expect(Math.max(...peer.frames.slice(-5))).toBeGreaterThan(1);
  });

  it("resends a frame uncompressed, to find whether it is too large, when a library rejects it without a reason", async () => {
    let refusals = 0;
    peer.behaviour.refuse = ({ envelopes }) => {
      if (!envelopes.some(({ sequence }) => sequence === 2n)) return undefined;
      refusals += 1;
      return refusals === 1
        ? new ConnectError("too large", Code.ResourceExhausted)
        : peerError(Code.ResourceExhausted, "frame_too_large");
    };
    await add(1, 3);
    forward({ batch: { maxEnvelopes: 1, maxBytes: 100_000, lingerMs: 1 }, maxInFlightFrames: 1 });
    await empty();
    expect([storedNumbers(), refusals, queue.stats().deadLetters]).toEqual([[1, 3], 2, 1]);
  });

  it("keeps all records while core rejects its certificate, reports the reason, and recovers", async () => {
    peer.behaviour.refuse = () => peerError(Code.PermissionDenied, "certificate_revoked");
    await add(1, 15);
    const forwarder = forward();
    await reports(forwarder, /certificate_revoked/);
    expect(queue.stats()).toMatchObject({ records: 15, deadLetters: 0 });
    delete peer.behaviour.refuse;
    await delivered(1, 15);
    expect(forwarder.status()).toMatchObject({ connected: true, lastError: null });
  });
});

it("a certificate that core does not know is reported with the command that helps, and one that is revoked without it", async () => {
  peer.behaviour.refuse = () => peerError(Code.PermissionDenied, "certificate_unknown");
  await add(1, 3);
  const forwarder = forward();
  const advice = /^certificate_unknown: .*svc-collector enroll --reenroll/;
  await reports(forwarder, advice);
  peer.behaviour.refuse = () => peerError(Code.PermissionDenied, "certificate_revoked");
  await reports(forwarder, /^certificate_revoked: (?!.*reenroll)/);
});

const account = {
  number: 1,
  lastSequence: 3,
  body: new Uint8Array(3),
  signature: new Uint8Array(3),
};

/** A core that commits each frame at once, and answers the third account alone. */
const connectToCore = (received: string[]) => {
  const respond = (
    message: NonNullable<MessageInitShape<typeof ForwardResponseSchema>["message"]>,
  ) => toBinary(ForwardResponseSchema, create(ForwardResponseSchema, { message }));
  let cursor = 0n;
  const answerTo = ({ message: { case: kind, value } }: ForwardRequest) => {
    const last = kind === "frame" ? value.envelopes.at(-1)?.sequence : undefined;
    received.push(last === undefined ? String(kind) : `frame ${last}`);
    if (kind === "open") return respond({ case: "opened", value: { cursor, takesAccounts: true } });
    if (last !== undefined) {
      cursor = last;
      return respond({ case: "ack", value: { ackedThrough: cursor } });
    }
    const accounts = received.filter((name) => name === "account").length;
    return accounts < 3 ? undefined : respond({ case: "accountAck", value: { through: 1n } });
  };
  const run = async ({ requests, onResponse, signal }: GrpcCall) => {
    const serve = async () => {
      for await (const request of requests) {
        const answer = answerTo(fromBinary(ForwardRequestSchema, request as Uint8Array));
        if (answer) onResponse(answer);
      }
    };
    const aborted = new Promise<never>((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
    );
    await Promise.race([serve(), aborted]);
  };
  return () => ({ run, session: () => undefined, abort: () => undefined });
};

it("an account that core does not answer twice keeps telemetry back for half a minute, and is sent again a minute later", async () => {
  const clock = createTestClock();
  let isPending = true;
  const accounts: QueueAccounts = {
    ...queue.accounts,
    next: () => (isPending ? account : undefined),
    boundaryAbove: () => Number.POSITIVE_INFINITY,
    changed: (signal) => clock.sleep(Number.MAX_SAFE_INTEGER, signal),
    acknowledged: () => {
      isPending = false;
    },
  };
  await add(1, 5);
  const received: string[] = [];
  const forwarder = forward({
    clock,
    connect: connectToCore(received),
    queue: new Proxy(queue, {
      get: (of, name) => (name === "accounts" ? accounts : Reflect.get(of, name)),
    }),
  });
  // Acks are deleted in the queue's own time.
  const until = (last: string) => eventually(() => expect(received.at(-1)).toBe(last));
  await until("account");
  expect(received).toEqual(["open", "frame 3", "account"]);
  await clock.advance(14_999);
  expect(forwarder.status()).toMatchObject({ connected: true, takesAccounts: true });
  await clock.advance(1);
  expect(forwarder.status()).toMatchObject({
    connected: false,
    lastError: "deadline_exceeded: core did not answer an account for 15 s",
  });
  await clock.advance(1_000);
  await until("account");
  await clock.advance(16_000);
  await until("frame 5");
  expect(received.slice(3)).toEqual(["open", "account", "open", "frame 5"]);
  expect(forwarder.status()).toMatchObject({ connected: true, takesAccounts: false });
  expect(log.text()).toContain("they wait, and telemetry continues");

  await clock.advance(60_000);
  await until("account");
  expect([isPending, received.length]).toEqual([false, 8]);
  expect(forwarder.status()).toMatchObject({ connected: true, takesAccounts: true });
});

describe("the connection", () => {
  it("fails to a server with a certificate of another CA or another name", async () => {
    await add(1, 3);
    const other = await createTestCa({ name: "Other CA" });
    const forwarder = forward({ connect: connectWith({ ca: other.pem }) });
    await reports(forwarder, /certificate/i);
    await stop();
    const misnamed = forward({ connect: connectWith({ serverName: "elsewhere.test" }) });
    await reports(misnamed, /elsewhere\.test/);
    expect([peer.stored.length, queue.stats().records]).toEqual([0, 3]);
    await stop();
    forward({ connect: connectWith({ serverName: "localhost" }) });
    await empty();
  });

  it("fails with a client certificate of another CA, and keeps the records", async () => {
    await add(1, 3);
    const key = await createTestKey();
    const cert = encodePem(
      await issueTestCertificate({ ca: await createTestCa({ name: "Other CA" }), key }),
      "CERTIFICATE",
    );
    const forwarder = forward({ connect: connectWith({ cert, key: key.pem }) });
    await reports(forwarder, /./);
    expect(queue.stats().records).toBe(3);
    expect(forwarder.status().connected).toBe(false);
  });

  it("resumes its TLS session when it reconnects", async () => {
    await add(1, 3);
    forward();
    await empty();
    peer.disconnect();
    await add(4, 6);
    await empty();
    expect(peer.resumed).toEqual([false, true]);
    expect(storedNumbers()).toEqual(numbers(1, 6));
  });

  it("reconnects when core does not answer for a minute", async () => {
    let silent = true;
    peer.behaviour.beforeCommit = async () => {
      while (silent) await systemClock.sleep(5);
    };
    await add(1, 5);
    let skip = 0;
    forward({ clock: { ...clock, monotonic: () => systemClock.monotonic() + skip } });
    await eventually(() => expect(peer.frames.length).toBe(1));
    skip = 61_000;
    await eventually(() => expect(log.text()).toContain("did not answer"));
    silent = false;
    await delivered(1, 5);
  });

  it("ends at once when it is aborted, also during a backoff", async () => {
    await peer.close();
    // On a test clock a backoff never ends by itself.
    const forwarder = forward({ clock: createTestClock() });
    await reports(forwarder, /./);
    await stop();
    peer = await startIngestPeer();
  });
});
