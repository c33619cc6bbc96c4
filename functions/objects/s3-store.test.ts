import { describe, expect, it } from "vitest";
import { hashParts } from "#functions/node/objects/send-http.ts";
import type { Clock } from "#kit/clock.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createS3Model, type S3Fault } from "#tests/fakes/s3-model.ts";
import { itKeepsObjects } from "#tests/support/object-store-laws.ts";
import {
  ObjectChanged,
  ObjectExists,
  ObjectMissing,
  ObjectStoreUnavailable,
} from "./object-store.ts";
import {
  attemptMs,
  type S3CredentialSource,
  type S3Credentials,
  type SendHttp,
} from "./s3-calls.ts";
import { createS3Store } from "./s3-store.ts";

const bytes = new TextEncoder().encode("telemetry");

const start = () => {
  const clock = createTestClock();
  const model = createS3Model(clock);
  const key = { current: { accessKeyId: "key-1", secretAccessKey: "secret-1" } as S3Credentials };
  const credentials: S3CredentialSource = {
    current: async () => key.current,
    reject: () => {
      key.current = { accessKeyId: "key-2", secretAccessKey: "secret-2" };
    },
  };
  /** Time passes only while the store pauses, or a request hangs. */
  const sleep: Clock["sleep"] = (ms, signal) =>
    ms === attemptMs ? clock.sleep(ms, signal) : clock.advance(ms);
  const send: SendHttp = (request) => {
    const answer = model.send(request);
    const advance = () => clock.advance(attemptMs);
    const timer = setImmediate(advance);
    const cancel = () => clearImmediate(timer);
    answer.then(cancel, cancel);
    return answer;
  };
  const place = { bucketUrl: "http://s3.test/telemetry/", prefix: "fleet/a/", region: "eu-1" };
  const entropy = createSeededEntropy();
  const needs = { send, credentials, clock: { ...clock, sleep }, entropy, hash: hashParts };
  const store = createS3Store(place, needs);
  return { clock, key, state: model.state, store };
};

/** The faults of the first requests, in this order. */
const faults =
  (...first: (S3Fault | null)[]) =>
  () =>
    first.shift() ?? null;

describe("the laws", () => {
  itKeepsObjects(async () => start().store);
  itKeepsObjects(async () => {
    const { store, state } = start();
    state.pageMax = 2;
    return store;
  });
});

const slowDown = { status: 503, code: "SlowDown" };

it.each<[name: string, fault: S3Fault]>([
  ["a busy store", slowDown],
  ["a store that demands a pause", { ...slowDown, headers: { "retry-after": "7" } }],
  ["too many requests", { status: 429, code: "TooManyRequests" }],
  ["an internal error", { status: 500, code: "InternalError" }],
  ["a conflict of two writers", { status: 409, code: "ConditionalRequestConflict" }],
  ["a lost request", "lost-request"],
  ["a lost response", "lost-response"],
  ["a response that does not come", "hangs"],
])("repeats each call after %s", async (_name, fault) => {
  const { state, store } = start();
  const twice = () => {
    state.fault = faults(fault, fault);
  };
  twice();
  await store.put("o/a", [bytes]);
  expect(state.objects.get("fleet/a/o/a")).toEqual(bytes);
  twice();
  expect(await store.read("o/a", { last: 9 })).toEqual(bytes);
  twice();
  expect(await store.list({ prefix: "o/", limit: 9 })).toHaveLength(1);
  twice();
  await store.delete(["o/a"]);
  expect(state.objects.size).toBe(0);
});

it("waits as long as the store demands, and gives up after a minute", async () => {
  const { clock, state, store } = start();
  const started = clock.now();
  state.fault = faults({ ...slowDown, headers: { "retry-after": "7" } });
  await store.put("o/a", [bytes]);
  expect(clock.now() - started).toBeGreaterThanOrEqual(7_000);
  state.fault = () => slowDown;
  const failing = store.put("o/b", [bytes]);
  await expect(failing).rejects.toThrow("the bucket fails PUT: HTTP 503, SlowDown");
  state.fault = () => "hangs";
  const hanging = store.put("o/b", [bytes]);
  await expect(hanging).rejects.toThrow("the bucket fails PUT: no response in time");
  await expect(hanging).rejects.toThrow(ObjectStoreUnavailable);
});

it("ends a call that its caller gives up", async () => {
  const { state, store } = start();
  const caller = new AbortController();
  state.fault = () => "hangs";
  const call = store.put("o/a", [bytes], caller.signal);
  caller.abort(new Error("no longer needed"));
  await expect(call).rejects.toThrow("no longer needed");
});

it("overwrites nothing, not even half of an object that an earlier attempt left", async () => {
  const { state, store } = start();
  state.fault = faults("half");
  await expect(store.put("o/a", [bytes])).rejects.toThrow(ObjectExists);
  expect(state.objects.get("fleet/a/o/a")).toHaveLength(4);
});

it("stores on a server that does not know conditions", async () => {
  const { state, store } = start();
  state.isConditional = false;
  await store.put("o/a", [bytes]);
  expect(state.objects.get("fleet/a/o/a")).toEqual(bytes);
});

it("signs by the store's clock once the store rejects its own", async () => {
  const { state, store } = start();
  for (const aheadMs of [86_400_000, -86_400_000, 0]) {
    state.aheadMs = aheadMs;
    await store.put(`o/${aheadMs}`, [bytes]);
  }
  expect(state.objects.size).toBe(3);
});

it("takes a new key when the store rejects the old one", async () => {
  const { key, state, store } = start();
  state.keys = new Map([["key-2", "secret-2"]]);
  await store.put("o/a", [bytes]);
  key.current = { accessKeyId: "key-2", secretAccessKey: "secret-1" };
  expect(await store.read("o/a", { last: 9 })).toEqual(bytes);
  state.keys.clear();
  await expect(store.put("o/b", [bytes])).rejects.toThrow(
    "the bucket fails PUT: HTTP 403, InvalidAccessKeyId",
  );
});

it("calls an object missing only where the bucket answers so", async () => {
  const { state, store } = start();
  await store.put("o/a", [bytes]);
  const read = () => store.read("o/a", { offset: 0, length: 9 });
  state.objects.set("fleet/a/o/a", bytes.slice(0, 8));
  await expect(read()).rejects.toThrow(ObjectChanged);
  state.objects.clear();
  await expect(read()).rejects.toThrow(ObjectMissing);
  for (const operation of ["GET", "PUT", "LIST", "DELETE"]) state.denied.add(operation);
  await expect(read()).rejects.toThrow("the bucket fails GET: HTTP 403, AccessDenied");
  await expect(store.delete(["o/a"])).rejects.toThrow("AccessDenied");
  state.hasBucket = false;
  await expect(read()).rejects.toThrow("the bucket fails GET: HTTP 404, NoSuchBucket");
});

it("names what the bucket does to objects", async () => {
  const { state, store } = start();
  state.objectHeaders = {
    "x-amz-version-id": "3sL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY",
    "x-amz-expiration": 'expiry-date="Fri, 21 Dec 2026 00:00:00 GMT", rule-id="a day"',
  };
  await store.put("o/a", [bytes]);
  expect(store.hazards()).toEqual([
    expect.stringContaining("keeps versions"),
    expect.stringContaining("deletes objects"),
  ]);
  state.objectHeaders = { "x-amz-version-id": "null" };
  await store.put("o/b", [bytes]);
  expect(store.hazards()).toEqual([]);
});
