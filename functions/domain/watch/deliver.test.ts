import { createHmac } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { watchMessage } from "#drizzle/schema/watch.ts";
import { correctTimes } from "#functions/jobs/core-jobs.ts";
import { createWatchLab, watchSecrets } from "#tests/support/fleet/watches.ts";
import { deliverMessages } from "./deliver.ts";
import { evaluateWatches, expireWatches } from "./run-watches.ts";

const lab = await createWatchLab();
const { clock, core, sent, send, deliver, create, show, act, beat, tick, typesOf, kindsOf } = lab;
const failed = (reason: string, isFinal = false) =>
  ({ status: "failed", reason, isFinal, afterMs: null }) as const;
beforeEach(() => lab.reset());

/** Verifies a message as Standard Webhooks says, with nothing of core's. */
const isSignedBy = (
  secret: string,
  { headers, body }: Pick<(typeof sent)[number], "headers" | "body">,
) => {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
  return headers["webhook-signature"]?.split(" ").includes(expected);
};
const ids = () => sent.map(({ headers }) => headers["webhook-id"]);

describe("a message", () => {
  it("is signed by the present secret and by the previous one", async () => {
    await act(await create(), "test");
    await deliver();
    const [message] = sent;
    if (message === undefined) throw new Error("nothing was sent");
    expect(message.url).toBe("https://hook.test/in");
    expect(message.headers["webhook-timestamp"]).toBe(`${Math.floor(clock.now() / 1000)}`);
    expect(watchSecrets.map((secret) => isSignedBy(secret, message))).toEqual([true, true]);
    const forged = { ...message, body: `${message.body} ` };
    expect(watchSecrets.map((secret) => isSignedBy(secret, forged))).toEqual([false, false]);
  });

  it("that waits goes to the new address of a receiver that has changed", async () => {
    await act(await create(), "test");
    lab.answer = () => failed("HTTP 503");
    await deliver();
    const { webUrl = "", receivers: [hook, ...others] = [] } = core.watches() ?? {};
    const moved = hook && {
      webUrl,
      receivers: [{ ...hook, url: "https://moved.test" }, ...others],
    };
    await clock.advance(60_000);
    await deliverMessages({ ...core, watches: () => moved ?? null }, send);
    expect(sent.map(({ url }) => url)).toEqual(["https://hook.test/in", "https://moved.test"]);
  });

  it("is sent by one core, however many run", async () => {
    const id = await create();
    await beat(8);
    await clock.advance(10_000);
    await evaluateWatches(core);
    const counts = await Promise.all([deliver(), deliver(), deliver()]);
    expect([counts.toSorted(), typesOf(id)]).toEqual([[0, 0, 1], ["firing"]]);
  });

  it("is sent again by another core, with the same id, if the first ends before it stores that it was sent", async () => {
    const id = await create();
    await beat(8);
    await clock.advance(10_000);
    await evaluateWatches(core);
    const crash = new Error("the core ends");
    const sendAndEnd = async (request: (typeof sent)[number]) => {
      await send(request);
      throw crash;
    };
    await expect(deliverMessages(core, sendAndEnd)).rejects.toThrow(crash);
    await tick(5);
    expect(typesOf(id)).toEqual(["firing"]);
    await tick(2);
    expect(typesOf(id)).toEqual(["firing", "firing"]);
    expect(new Set(ids()).size).toBe(1);
  });

  it("keeps its id and its place before the next one while its receiver fails", async () => {
    const id = await create();
    let failures = 3;
    lab.answer = () => (failures-- > 0 ? failed("HTTP 500") : { status: "delivered" });
    await beat(8);
    await tick();
    await beat(0);
    await tick();
    expect(await show(id)).toMatchObject({ state: "inactive", waiting_messages: 2 });
    await tick(30);
    expect(typesOf(id)).toEqual([...Array(4).fill("firing"), "resolved"]);
    expect([new Set(ids().slice(0, 4)).size, new Set(ids()).size]).toEqual([1, 2]);
    expect(await kindsOf(id)).toEqual(["firing", "resolved", "delivered", "delivered"]);
  });

  it("goes before any number of messages to a receiver that does not answer", async () => {
    await act(await create(), "test");
    const [fresh] = await core.db.select().from(watchMessage);
    if (fresh === undefined) throw new Error("no message");
    const waiting = Array.from({ length: 40 }, (_, n) => {
      const id = `${(160 + n).toString(16)}${fresh.id.slice(2)}`;
      const nextAttemptAt = new Date(clock.now() - 1);
      return { ...fresh, id, watchId: id, position: -n, failures: 1, nextAttemptAt };
    });
    await core.db.insert(watchMessage).values(waiting);
    await deliver();
    expect([sent.length, ids().indexOf(fresh.id) < 32]).toEqual([41, true]);
  });

  it("is dropped when its receiver is gone, or after a day, and the next one is sent", async () => {
    const id = await create({ receivers: ["hook", "other"] });
    lab.answer = () =>
      sent.at(-1)?.url.includes("hook")
        ? failed("HTTP 410: the receiver is gone", true)
        : failed("HTTP 500");
    await beat(8);
    await tick();
    const [newest] = (await show(id)).history;
    const gone = { kind: "dropped", receiver: "hook", detail: "HTTP 410: the receiver is gone" };
    expect(newest).toMatchObject(gone);
    expect((await show(id)).waiting_messages).toBe(1);
    await clock.advance(86_400_001);
    // It still fires: a receiver that comes back is to know.
    expect(await expireWatches(core)).toBe(0);
    await lab.change(id, { more_than: 99 });
    expect(await expireWatches(core)).toBe(1);
    const late = { kind: "dropped", receiver: "other", detail: "after a day: HTTP 500" };
    expect((await show(id)).history[0]).toMatchObject(late);
  });

  it("K1: that waits is sent within a minute after the clock was two days ahead, and a silence is no longer than was asked for", async () => {
    const id = await create();
    const before = clock.now();
    lab.answer = () => failed("HTTP 503");
    clock.set(before + 2 * 86_400_000);
    await act(id, "test");
    await act(id, "silence", { seconds: 3600 });
    await deliver();
    clock.set(before + 60_000);
    lab.answer = () => ({ status: "delivered" });
    await correctTimes(core);
    await deliver();
    expect(await kindsOf(id)).toEqual(["silenced", "delivered"]);
    expect((await show(id)).silence?.until).toBe(new Date(before + 3_660_000).toISOString());
  });
});

describe("Alertmanager", () => {
  const alerts = () => sent.flatMap(({ body }): Record<string, unknown>[] => JSON.parse(body));

  it("is told every minute that a watch fires, until it has ended, and not while it is silenced", async () => {
    const id = await create({ receivers: ["am"] });
    const { name: watch } = await show(id);
    await beat(8);
    await tick();
    const startsAt = clock.iso();
    expect(sent).toMatchObject([
      { url: "https://am.test/api/v2/alerts", headers: { authorization: "Bearer abc" } },
    ]);
    expect(alerts()).toEqual([
      {
        labels: { severity: "page", alertname: "SvcWatch", watch, watch_id: id },
        annotations: {
          summary: "8 hosts match label.zone:dark, more than 2",
          line: `https://fleet.test/#watch:${id}`,
        },
        startsAt,
        endsAt: clock.iso(240_000),
        generatorURL: expect.stringMatching(/^https:\/\/fleet\.test\/fleet\?label=zone%3Adark&at=/),
      },
    ]);
    const countAfter = async (ticks: number) => {
      await tick(ticks);
      return alerts().length;
    };
    expect([await countAfter(5), await countAfter(1)]).toEqual([1, 2]);
    expect(alerts()[1]).toMatchObject({ startsAt });
    await act(id, "test");
    expect(await countAfter(1)).toBe(3);
    expect(alerts().at(-1)).toMatchObject({ labels: { alertname: "SvcWatchTest" } });
    await act(id, "silence", { seconds: 180 });
    expect([await countAfter(17), await countAfter(1)]).toEqual([3, 4]);
    await beat(0);
    await tick();
    expect(alerts().at(-1)).toMatchObject({ startsAt, endsAt: clock.iso() });
    expect(await countAfter(12)).toBe(5);
    const silenced = ["firing", "delivered", "delivered", "silenced", "resolved", "delivered"];
    expect(await kindsOf(id)).toEqual(silenced);
  });

  it("is not told that a watch fires which ended while it was down for more than a day", async () => {
    const id = await create({ receivers: ["am"] });
    await beat(8);
    await tick();
    lab.answer = () => failed("HTTP 503");
    await beat(0);
    await tick();
    await clock.advance(86_400_001);
    await expireWatches(core);
    expect((await show(id)).history[0]).toMatchObject({ kind: "dropped", receiver: "am" });
    sent.length = 0;
    await deliver();
    expect(sent).toEqual([]);
  });
});
