import { afterAll, describe, expect, it } from "vitest";
import { type Clock, systemClock } from "#kit/clock.ts";
import { Secret } from "#kit/secret.ts";
import { driftKinds, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { decodePem } from "#proto/pem.ts";
import { createTestToken, identityPrefix } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { startTestIngest } from "#tests/support/ingest.ts";
import type { ModelDatabase } from "../model/predict-health.ts";
import { driveFleet } from "./drive-fleet.ts";
import { createForward } from "./node-wire.ts";
import { codeOf, type Wire, WireError, type WireResponse } from "./wire.ts";

/** Runs a prediction with an empty database of the test server. */
const withDatabase = async <Result>(use: (database: ModelDatabase) => Promise<Result>) => {
  const database = await useTestDatabase();
  return await use({ db: database.connect().db, url: database.url });
};

describe("a driven fleet", async () => {
  const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.4.0" } });
  // The listener stamps frames by core's clock. TLS checks dates by the machine's, so its certificates are of the listener's own CA.
  const clock = { ...systemClock, now: test.clock.now };
  const ingest = await startTestIngest({ database: test.database, needs: { clock } });
  afterAll(() => ingest.close());
  const forward = createForward({ url: `https://localhost:${ingest.port}`, caPem: ingest.caPem });

  const read = async (response: Response) => ({
    status: response.status,
    body: (await response.json()) as WireResponse["body"],
  });
  const requestOf = (path: string, init: RequestInit, body: object | undefined) =>
    new Request(new URL(path, "http://core.test"), {
      ...init,
      headers: {
        ...init.headers,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  /** Advances when the drive sleeps. */
  const movedBySleep: Clock = {
    ...test.clock,
    async sleep(ms, signal) {
      signal?.throwIfAborted();
      await test.clock.advance(ms);
    },
  };
  const clients = new Map<string, ReturnType<typeof ingest.client>>();
  const wire: Wire = {
    call: async ({ method, path, bearer, body }) =>
      read(
        await test.fetch(
          requestOf(path, { method, headers: { Authorization: `Bearer ${bearer}` } }, body),
        ),
      ),
    manage: async ({ path, body }, { certificate }) =>
      read(
        await test.fetch(requestOf(path, { method: "POST" }, body), {
          certificate,
          listener: "ingest",
        }),
      ),
    poll: async (message, { certificate }) => {
      const headers = { "Content-Type": "application/x-protobuf" };
      const url = new URL("/v1/opamp", "http://core.test");
      const request = new Request(url, { method: "POST", headers, body: message });
      const response = await test.fetch(request, { certificate, listener: "ingest" });
      if (response.status !== 200) throw new WireError(codeOf(await read(response)));
      return new Uint8Array(await response.arrayBuffer());
    },
    forward: async (beacon) => {
      const known = clients.get(beacon.identity) ?? ingest.client({ uri: beacon.identity });
      clients.set(beacon.identity, known);
      const { der, key } = await known;
      await forward(beacon, {
        certificate: der,
        key: decodePem(key, "PRIVATE KEY") ?? new Uint8Array(),
      });
    },
    close: () => undefined,
  };

  const shared = {
    clock: movedBySleep,
    concurrency: 1,
    withDatabase,
    signal: new AbortController().signal,
    progress: () => undefined,
  };
  const byOperator = {
    ...shared,
    operatorToken: () => test.bridgeToken("admin"),
    bootstrap: null,
  };

  it("appears in the live report as predicted, row by row, in every state and every kind of drift", async () => {
    const { report } = await driveFleet({
      scenario: "fleet-100",
      seed: 11,
      hosts: 30,
      durationSeconds: 360,
      run: "test",
      wire,
      ...byOperator,
      isOld: true,
    });
    expect(report.failures).toEqual({});
    expect(report.comparison?.differences).toEqual([]);
    expect(report).toMatchObject({
      hosts: 30,
      ok: true,
      comparison: { compared: 30, differing: 0, ok: true },
    });
    for (const state of fleetStates) {
      const count = report.comparison?.by_state[state];
      expect({ state, count: count?.live }).toEqual({ state, count: count?.predicted });
      expect({ state, some: (count?.live ?? 0) > 0 }).toEqual({ state, some: true });
    }
    expect(Object.keys(report.refusals).sort()).toEqual([
      "certificate_revoked",
      "clock_skew",
      "identity_revoked",
      "proof_invalid",
    ]);
    const drift = await Promise.all(
      driftKinds.map(async (kind) => {
        const { body } = await test.auditor.get<{ items: unknown[] }>(
          `/v1/collector/health?drift=${kind}&limit=1`,
        );
        return body.items.length;
      }),
    );
    expect(drift).toEqual(driftKinds.map(() => 1));
  });

  it("reaches every state within five heartbeat intervals, and can be kept alive", async () => {
    const { report, keep } = await driveFleet({
      scenario: "fleet-100",
      seed: 12,
      hosts: 30,
      durationSeconds: 300,
      run: "young",
      wire: {
        ...wire,
        forward: null,
      },
      ...byOperator,
    });
    expect(report.failures).toEqual({});
    expect(report.comparison?.differences).toEqual([]);
    const states = Object.entries(report.comparison?.by_state ?? {});
    expect(states.filter(([, { live }]) => live === 0)).toEqual([]);

    const { body: before } = await healthOf("young");
    const stop = new AbortController();
    const kept = keep(stop.signal);
    const end = test.clock.now() + 240_000;
    while (test.clock.now() < end) await new Promise((resolve) => setImmediate(resolve));
    stop.abort();
    await kept;
    const { body: after } = await healthOf("young");
    // Three heartbeat intervals later a fleet without heartbeats would be stale.
    expect(after.items.map(({ identity }) => identity)).toEqual(
      before.items.map(({ identity }) => identity),
    );
    const heartbeatTimes = (items: typeof before.items) =>
      items.map((row) => Date.parse(row.last_heartbeat_at ?? ""));
    const first = heartbeatTimes(before.items);
    const then = heartbeatTimes(after.items);
    expect(then.filter((at, index) => at <= (first[index] ?? 0))).toEqual([]);
  });

  it("enrolls and heartbeats with a bootstrap token alone, without revocations and without a comparison", async () => {
    const { token } = await createTestToken(test);
    const { report } = await driveGuests(13, token, { wire: { ...wire, forward: null } });
    expect(report).toMatchObject({
      failures: {},
      refusals: {},
      comparison: null,
      stopped: null,
      ok: true,
    });
    expect(report.operations).toMatchObject({
      enroll: { count: 7, failed: 0 },
      heartbeat: { failed: 0 },
    });
    expect(report.operations["revoke.identity"]).toBeUndefined();
  });

  /** Drives seven hosts with a bootstrap token alone. */
  const driveGuests = (
    seed: number,
    token: string,
    { wire, signal = new AbortController().signal }: { wire: Wire; signal?: AbortSignal },
  ) =>
    driveFleet({
      scenario: "smoke",
      seed,
      hosts: 7,
      durationSeconds: 300,
      run: "guest",
      wire,
      operatorToken: null,
      bootstrap: { token: new Secret(token), identityPrefix },
      ...shared,
      signal,
    });

  it("ends at the first enrollment that core would reject for every host, and explains the code", async () => {
    const { token } = await createTestToken(test);
    const { report } = await driveGuests(
      14,
      `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`,
      { wire },
    );
    expect(report).toMatchObject({ ok: false, failures: { token_invalid: 1 }, comparison: null });
    expect(report.operations).toEqual({ enroll: expect.objectContaining({ count: 1, failed: 1 }) });
    expect(report.stopped).toMatch(
      /^core rejects every enrollment: token_invalid: the bootstrap token is unknown/,
    );
  });

  it("reports what it did when the signal stops it", async () => {
    const { token } = await createTestToken(test);
    const stop = new AbortController();
    const manage: Wire["manage"] = (request, credentials) => {
      stop.abort(new Error("stopped by SIGINT"));
      return wire.manage(request, credentials);
    };
    const { report } = await driveGuests(15, token, {
      wire: { ...wire, forward: null, manage },
      signal: stop.signal,
    });
    expect(report).toMatchObject({
      ok: false,
      stopped: "stopped by SIGINT",
      comparison: null,
      failures: {},
    });
    expect(report.operations.heartbeat).toMatchObject({ count: 1, failed: 0 });
  });

  const healthOf = (run: string) =>
    test.auditor.get<{ items: { identity: string; last_heartbeat_at: string | null }[] }>(
      `/v1/collector/health?q=/${run}/&state=healthy`,
    );
});
