import { createHmac } from "node:crypto";
import { sql } from "drizzle-orm";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { watchMessage } from "#drizzle/schema/watch.ts";
import { systemClock } from "#kit/clock.ts";
import type { WatchDetail, WatchMessageBody } from "#proto/watch/watch.ts";
import { createTestToken, sendHeartbeat } from "#tests/support/collector.ts";
import { createTestCore } from "#tests/support/core.ts";
import { type Received, startReceiver } from "#tests/support/receiver.ts";
import { createHistoryKeeper } from "../domain/fleet/keep-history.ts";
import { deliverMessages } from "../domain/watch/deliver.ts";
import { evaluateWatches, expireWatches } from "../domain/watch/run-watches.ts";
import { createSendRequest } from "../node/send-request.ts";
import { correctTimes } from "./core-jobs.ts";
import { createSessionKeeper } from "./keep-core-session.ts";

const secrets = [
  `whsec_${btoa("the new secret, of 32 bytes or so")}`,
  `whsec_${btoa("the old secret, of 32 bytes or so")}`,
];
const webhook = await startReceiver();
const alertmanager = await startReceiver();
const test = await createTestCore({
  env: {
    SVC_WATCH_RECEIVERS: `web_url: https://fleet.test
receivers:
  - {kind: webhook, name: hook, url: '${webhook.url}/in', allow_private: true, secret: ${secrets[0]}, previous_secret: ${secrets[1]}}
  - {kind: alertmanager, name: am, url: '${alertmanager.url}', allow_private: true, bearer_token: abc, labels: {severity: page}}
  - {kind: webhook, name: private, url: 'https://127.0.0.1:1/', secret: ${secrets[0]}}`,
  },
});
afterAll(() => Promise.all([test.close(), webhook.close(), alertmanager.close()]));
const { admin, auditor, api, clock, core } = test;
const send = createSendRequest({ clock: { ...systemClock, now: clock.now }, msMax: 200 });
const keepSession = createSessionKeeper(
  core,
  () => true,
  () => undefined,
);

await createHistoryKeeper(core)();
const { enroll } = await createTestToken(test);
const hosts = await Promise.all(
  Array.from({ length: 14 }, (_, n) => enroll(`host-${n}`, "ed25519")),
);
/** Sends a heartbeat of each host: the first `dark` of them are in the zone that is watched. */
const beat = (dark: number) =>
  Promise.all(
    hosts.map((host, n) =>
      sendHeartbeat(test, host, {
        labels: { zone: n < dark ? "dark" : "light", rack: n < 5 ? "7" : "8" },
      }),
    ),
  );

/** Lets ten seconds pass and runs the job, as often as told. */
const tick = async (times = 1) => {
  for (let passed = 0; passed < times; passed += 1) {
    await clock.advance(5000);
    await keepSession();
    await clock.advance(5000);
    await keepSession();
    await evaluateWatches(core);
    await deliverMessages(core, send);
  }
};

let watches = 0;
const create = async (fields: object = {}) => {
  const body = {
    filter: "label.zone:dark",
    more_than: 2,
    for_seconds: 20,
    receivers: ["hook"],
    ...fields,
  };
  const made = await admin.post<WatchDetail>("/v1/collector/watches", {
    name: `watch ${++watches}`,
    ...body,
  });
  expect(made).toMatchObject({ status: 201 });
  return made.body.id;
};
const show = (id: string) => auditor.read<WatchDetail>(`/v1/collector/watches/${id}`);
const post = (id: string, verb: string, body?: object) =>
  api("POST", `/v1/collector/watches/${id}/${verb}`, { as: "admin", ...(body ? { body } : {}) });
const remove = (id: string) => admin.delete(`/v1/collector/watches/${id}`);
const messages = () => webhook.received.map(({ body }) => JSON.parse(body) as WatchMessageBody);
/** Returns the types of the messages that a receiver got of a watch, such as `firing`. */
const typesOf = (id: string) =>
  messages().flatMap(({ type, data }) =>
    data.watch.id === id ? [type.replace("watch.", "")] : [],
  );
const kindsOf = async (id: string) => (await show(id)).history.map(({ kind }) => kind).toReversed();

/** Verifies a message as Standard Webhooks says, with nothing of core's. */
const isSignedBy = (secret: string, { headers, body }: Received) => {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
  return String(headers["webhook-signature"]).split(" ").includes(expected);
};

beforeEach(async () => {
  const { body } = await auditor.get<{ items: WatchDetail[] }>("/v1/collector/watches?limit=200");
  for (const { id } of body.items) await remove(id);
  await core.db.execute(sql`truncate core_session, core_outage`);
  await beat(0);
  webhook.answer = () => 204;
  alertmanager.answer = () => 200;
  await tick(3);
  for (const receiver of [webhook, alertmanager]) receiver.received.length = 0;
});

it("receivers that have changed get the messages that waited, at their new address", async () => {
  const id = await create();
  webhook.answer = () => 503;
  await post(id, "test");
  await deliverMessages(core, send);
  expect(webhook.received).toHaveLength(1);
  const [hook, ...others] = core.watches()?.receivers ?? [];
  const moved = hook && {
    webUrl: "https://fleet.test",
    receivers: [{ ...hook, url: `${alertmanager.url}/moved` }, ...others],
  };
  await clock.advance(60_000);
  await deliverMessages({ ...core, watches: () => moved ?? null }, send);
  expect([webhook.received.length, alertmanager.received.map(({ path }) => path)]).toEqual([
    1,
    ["/moved"],
  ]);
});

describe("a watch", () => {
  it("sends one signed message when it fires, with what the hosts are and have in common, and one when it has ended", async () => {
    const id = await create();
    await beat(3);
    await tick(2);
    expect([typesOf(id), (await show(id)).state]).toEqual([[], "pending"]);
    const since = (await show(id)).since;
    await tick();
    const [received] = webhook.received;
    const firedAt = clock.iso();
    expect(received && JSON.parse(received.body)).toEqual({
      type: "watch.firing",
      timestamp: firedAt,
      data: {
        watch: {
          id,
          name: `watch ${watches}`,
          filter: "label.zone:dark",
          more_than: 2,
          for_seconds: 20,
        },
        count: 3,
        since,
        common_factor: null,
        url: `https://fleet.test/fleet?${new URLSearchParams({ label: "zone:dark", at: firedAt })}`,
        reason: null,
      },
    });
    expect(received?.path).toBe("/in");
    expect(secrets.map((secret) => received && isSignedBy(secret, received))).toEqual([true, true]);
    expect(
      received && isSignedBy(secrets[0] ?? "", { ...received, body: `${received.body} ` }),
    ).toBe(false);
    expect(Number(received?.headers["webhook-timestamp"])).toBe(Math.floor(clock.now() / 1000));
    await tick(5);
    expect(typesOf(id)).toEqual(["firing"]);
    await beat(2);
    await tick(3);
    expect(typesOf(id)).toEqual(["firing", "resolved"]);
    // The link has the number of the message, as the page had it then.
    const { search } = new URL(messages()[0]?.data.url ?? "");
    const totals = ["?label=zone%3Adark", search].map((query) =>
      auditor.get<{ total: number }>(`/v1/collector/health/facets${query}`),
    );
    expect((await Promise.all(totals)).map(({ body }) => body.total)).toEqual([2, 3]);
    expect(await kindsOf(id)).toEqual(["firing", "delivered", "resolved", "delivered"]);
    expect(await show(id)).toMatchObject({
      state: "inactive",
      count: 2,
      since: null,
      waiting_messages: 0,
    });
  });

  it("has one sender and one message, however many cores run", async () => {
    const id = await create({ for_seconds: 0 });
    await beat(8);
    await clock.advance(10_000);
    const evaluated = await Promise.all([
      evaluateWatches(core),
      evaluateWatches(core),
      evaluateWatches(core),
    ]);
    expect(evaluated.reduce((sum, each) => sum + each, 0)).toBe(1);
    const sent = await Promise.all([1, 2, 3].map(() => deliverMessages(core, send)));
    expect([sent.reduce((sum, each) => sum + each, 0), typesOf(id)]).toEqual([1, ["firing"]]);
    await clock.advance(3000);
    expect(await evaluateWatches(core)).toBe(0);
  });

  it("is sent again by another core, with the same id, if the first ends before it stores that it was sent", async () => {
    const id = await create({ for_seconds: 0 });
    await beat(8);
    await clock.advance(10_000);
    await evaluateWatches(core);
    const crash = new Error("the core ends");
    await expect(
      deliverMessages(core, async (request) => {
        await send(request);
        throw crash;
      }),
    ).rejects.toThrow(crash);
    await tick(5);
    expect(typesOf(id)).toEqual(["firing"]);
    await tick(2);
    expect(typesOf(id)).toEqual(["firing", "firing"]);
    expect(new Set(webhook.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  });

  it("keeps the order of its messages, and their ids, through a receiver that is down, slow or redirects", async () => {
    const id = await create({ for_seconds: 0 });
    const answers: (number | null)[] = [500, 302, null];
    webhook.answer = () => (answers.length === 0 ? 204 : (answers.shift() ?? null));
    await beat(8);
    await tick();
    await beat(0);
    await tick();
    expect(typesOf(id)).toEqual(["firing", "firing"]);
    expect(await show(id)).toMatchObject({ state: "inactive", waiting_messages: 2 });
    await tick(30);
    expect(typesOf(id)).toEqual([...Array(4).fill("firing"), "resolved"]);
    const ids = webhook.received.map(({ headers }) => headers["webhook-id"]);
    expect([new Set(ids.slice(0, 4)).size, new Set(ids).size]).toEqual([1, 2]);
    expect(await kindsOf(id)).toEqual(["firing", "resolved", "delivered", "delivered"]);
  });

  it("goes before any number of messages to a receiver that does not answer", async () => {
    const id = await create();
    await post(id, "test");
    const [fresh] = await core.db.select().from(watchMessage);
    if (fresh === undefined) throw new Error("no message");
    const waiting = Array.from({ length: 40 }, (_, n) => {
      const other = `${(160 + n).toString(16)}${fresh.id.slice(2)}`;
      return {
        ...fresh,
        id: other,
        watchId: other,
        position: -n,
        failures: 1,
        nextAttemptAt: new Date(clock.now() - 1),
      };
    });
    await core.db.insert(watchMessage).values(waiting);
    const order: string[] = [];
    await deliverMessages(core, async ({ headers }) => {
      order.push(headers["webhook-id"] ?? "");
      return { status: "delivered" };
    });
    expect([order.length, order.indexOf(fresh.id) < 32]).toEqual([41, true]);
  });

  it("K1: sends what waits within a minute after the clock was two days ahead, and is silent no longer than was asked for", async () => {
    const id = await create({ for_seconds: 0 });
    const before = clock.now();
    webhook.answer = () => 503;
    clock.set(before + 2 * 86_400_000);
    await post(id, "test");
    await post(id, "silence", { seconds: 3600 });
    await deliverMessages(core, send);
    clock.set(before + 60_000);
    webhook.answer = () => 204;
    await correctTimes(core);
    await deliverMessages(core, send);
    expect(await kindsOf(id)).toEqual(["silenced", "delivered"]);
    expect((await show(id)).silence?.until).toBe(new Date(before + 3_660_000).toISOString());
  });

  it("gives a message up when its receiver is gone, or after a day, and goes on with the next one", async () => {
    const id = await create({ for_seconds: 0, receivers: ["hook", "private"] });
    webhook.answer = () => 410;
    await beat(8);
    await tick();
    expect((await show(id)).history[0]).toMatchObject({
      kind: "dropped",
      receiver: "hook",
      detail: "HTTP 410: the receiver is gone",
    });
    await tick(3);
    expect([webhook.received.length, (await show(id)).waiting_messages]).toEqual([1, 1]);
    await clock.advance(86_400_001);
    // It still fires: a receiver that comes back is to know.
    expect(await expireWatches(core)).toBe(0);
    const { name, filter, revision } = await show(id);
    await admin.put(`/v1/collector/watches/${id}`, { name, filter, more_than: 99, revision });
    expect(await expireWatches(core)).toBe(1);
    expect((await show(id)).history[0]).toMatchObject({
      kind: "dropped",
      receiver: "private",
      detail: "after a day: the receiver's address is not allowed",
    });
  });

  it("is silent until the end of a silence, and then says what still fires", async () => {
    const id = await create({ for_seconds: 0 });
    expect((await post(id, "silence", { seconds: 60, reason: "rack 4" })).body).toMatchObject({
      silence: { reason: "rack 4", until: clock.iso(60_000) },
    });
    await beat(8);
    await tick(5);
    expect([typesOf(id), (await show(id)).state]).toEqual([[], "firing"]);
    await tick();
    expect([typesOf(id), (await show(id)).silence]).toEqual([["firing"], null]);
    await post(id, "silence", { seconds: 3600 });
    await beat(0);
    await tick();
    expect(typesOf(id)).toEqual(["firing", "resolved"]);
    expect((await post(id, "silence", { seconds: 0 })).body).toMatchObject({ silence: null });
  });

  it("tells those who know that it fires when it is deleted or changed, and nobody when it was pending", async () => {
    const fires = await create({ for_seconds: 0 });
    const changes = await create({ for_seconds: 0 });
    const waits = await create({ for_seconds: 600 });
    await beat(8);
    await tick();
    const { revision, name } = await show(changes);
    const body = { name, filter: "label.zone:dark", more_than: 99, receivers: ["hook"], revision };
    expect(await admin.put(`/v1/collector/watches/${changes}`, body)).toMatchObject({
      status: 200,
    });
    for (const id of [fires, waits]) expect((await remove(id)).status).toBe(204);
    await tick(2);
    expect([typesOf(fires), typesOf(changes), typesOf(waits)]).toEqual([
      ["firing", "resolved"],
      ["firing", "resolved"],
      [],
    ]);
    expect(messages().flatMap(({ data }) => data.reason ?? [])).toEqual(
      expect.arrayContaining(["changed", "deleted"]),
    );
    expect(await show(changes)).toMatchObject({ state: "inactive", revision: revision + 1 });
  });

  it("stands still while core could not receive: its own outage explains what it counts", async () => {
    const id = await create({ filter: "hb>2m", more_than: 0, for_seconds: 0 });
    await tick();
    await clock.advance(600_000);
    await evaluateWatches(core);
    expect(await show(id)).toMatchObject({ state: "inactive", held_by: { ended_at: null } });
    await keepSession();
    await tick();
    expect(await show(id)).toMatchObject({
      state: "inactive",
      held_by: { counted_from: expect.any(String) },
    });
    // Hosts have 96 s to come back; one does not.
    await Promise.all(hosts.slice(1).map((host) => sendHeartbeat(test, host)));
    await tick(10);
    expect(await show(id)).toMatchObject({ state: "firing", count: 1 });
    expect(typesOf(id)).toEqual(["firing"]);
  });

  it("says one cause once: another watch of the same hosts waits until that has ended", async () => {
    const stale = await create({ filter: "state:stale", more_than: 2, for_seconds: 0 });
    const silent = await create({ filter: "hb>4m", more_than: 2, for_seconds: 0 });
    const elsewhere = await create({
      filter: "hb>4m",
      more_than: 2,
      for_seconds: 0,
      receivers: ["hook", "am"],
    });
    const rack8 = { labels: { zone: "light", rack: "8" } };
    const beatRack8 = () =>
      Promise.all(hosts.slice(5).map((host) => sendHeartbeat(test, host, rack8)));
    for (let passed = 0; passed < 5; passed += 1) {
      await tick(6);
      await beatRack8();
    }
    const factor = { kind: "label", value: "rack:7", selected: 5, others: 0 };
    expect(messages().map(({ type, data }) => [type, data.watch.id, data.common_factor])).toEqual([
      ["watch.firing", stale, factor],
      ["watch.firing", elsewhere, factor],
    ]);
    expect(await show(silent)).toMatchObject({
      state: "firing",
      explained_by: stale,
      common_factor: factor,
    });
    await remove(stale);
    await remove(elsewhere);
    await tick();
    expect(typesOf(silent)).toEqual(["firing"]);
    expect(await show(silent)).toMatchObject({ explained_by: null });
  });

  it("has no time in its link where the filter has no history", async () => {
    const id = await create({
      filter: "incomplete<24h -device:host-0",
      more_than: 0,
      for_seconds: 0,
    });
    await post(id, "test");
    await tick();
    expect(messages()[0]?.data.url).toBe(
      `https://fleet.test/fleet?${new URLSearchParams({ not_device: "host-0", incomplete_within_seconds: "86400" })}`,
    );
  });

  it("says why its filter cannot be counted any more, and does not stop the others", async () => {
    const broken = await create({ for_seconds: 0 });
    const id = await create({ for_seconds: 0 });
    await core.db.execute(sql`update watch set filter = 'stat:stale' where id = ${broken}`);
    await beat(8);
    await tick();
    expect(await show(broken)).toMatchObject({
      count: null,
      fault: expect.stringContaining("There is no stat:"),
    });
    expect(typesOf(id)).toEqual(["firing"]);
  });

  it("is evaluated behind one whose evaluation fails", async () => {
    const created = [await create({ for_seconds: 0 }), await create({ for_seconds: 0 })];
    const [broken = "", id = ""] = created.toSorted();
    await core.db.execute(
      sql.raw(`alter table watch add constraint broken check (id <> '${broken}') not valid`),
    );
    await beat(8);
    await clock.advance(10_000);
    await expect(evaluateWatches(core)).rejects.toThrow();
    await core.db.execute(sql`alter table watch drop constraint broken`);
    expect(await show(id)).toMatchObject({ state: "firing" });
  });
});

describe("Alertmanager", () => {
  const alerts = () =>
    alertmanager.received.flatMap(({ body }) => JSON.parse(body) as Record<string, string>[]);

  it("is told every minute that a watch fires, until it has ended, and not while it is silenced", async () => {
    const id = await create({ for_seconds: 0, receivers: ["am"] });
    await beat(8);
    await tick();
    const startsAt = clock.iso();
    const [received] = alertmanager.received;
    expect([received?.path, received?.headers.authorization]).toEqual([
      "/api/v2/alerts",
      "Bearer abc",
    ]);
    expect(alerts()).toEqual([
      {
        labels: {
          severity: "page",
          alertname: "SvcWatch",
          watch: `watch ${watches}`,
          watch_id: id,
        },
        annotations: { summary: "8 hosts match label.zone:dark, more than 2" },
        startsAt,
        endsAt: clock.iso(240_000),
        generatorURL: expect.stringMatching(/^https:\/\/fleet\.test\/fleet\?label=zone%3Adark&at=/),
      },
    ]);
    await tick(5);
    expect(alerts()).toHaveLength(1);
    await tick();
    expect(alerts().map((alert) => alert.startsAt)).toEqual([startsAt, startsAt]);
    await post(id, "test");
    await tick();
    expect(alerts().at(-1)).toMatchObject({ labels: { alertname: "SvcWatchTest" } });
    await post(id, "silence", { seconds: 180 });
    await tick(17);
    expect(alerts()).toHaveLength(3);
    await tick();
    expect(alerts()).toHaveLength(4);
    await beat(0);
    await tick();
    expect(alerts().at(-1)).toMatchObject({
      startsAt,
      endsAt: clock.iso(),
    });
    await tick(12);
    expect(alerts()).toHaveLength(5);
    expect(await kindsOf(id)).toEqual([
      "firing",
      "delivered",
      "delivered",
      "silenced",
      "resolved",
      "delivered",
    ]);
  });

  it("is not told that a watch fires which ended while it was down for more than a day", async () => {
    const id = await create({ for_seconds: 0, receivers: ["am"] });
    await beat(8);
    await tick();
    alertmanager.answer = () => 503;
    await beat(0);
    await tick();
    await clock.advance(86_400_001);
    await expireWatches(core);
    expect((await show(id)).history[0]).toMatchObject({ kind: "dropped", receiver: "am" });
    alertmanager.answer = () => 200;
    alertmanager.received.length = 0;
    await deliverMessages(core, send);
    expect(alerts()).toEqual([]);
  });
});
