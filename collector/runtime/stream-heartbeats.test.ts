import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createRunningCollector,
  heartbeatAnswer,
  type RunningCollector,
} from "#tests/collector/support/running-collector.ts";

let running: RunningCollector;
beforeEach(async () => {
  running = await createRunningCollector();
});
afterEach(() => running.stop());

const accept = { nextStatusSeconds: 60 };
const reports = () =>
  running.peer.statuses.map(({ report }) =>
    report.length > 0 ? JSON.parse(Buffer.from(report).toString()) : null,
  );
const wait = (count: number) => expect.poll(() => running.peer.statuses.length).toBe(count);
/** Lets `ms` pass once the host sleeps until its next heartbeat, of which core said that it is due in `seconds`. */
const skip = async (seconds: number, ms: number) => {
  await expect.poll(() => running.clock.sleeps(seconds * 900, seconds * 1100)).toBe(true);
  running.clock.skip(ms);
};

describe("heartbeats on the stream", () => {
  it("are sent where core offers it: the first with the signed report, and none by HTTP", async () => {
    running.peer.behaviour.answerStatus = () => ({ nextStatusSeconds: 1 });
    await running.start();
    await expect.poll(() => running.peer.statuses.length).toBeGreaterThan(3);
    const [first, ...rest] = reports();
    expect(first).toMatchObject({
      proof: expect.any(String),
      sent_at: expect.any(String),
      boot_id: "ab".repeat(16),
    });
    expect(first).toMatchObject({ forwarder: { connected: true } });
    expect(rest.every((report) => report === null)).toBe(true);
    expect(new Set(running.peer.statuses.map(({ digest }) => digest.toHex())).size).toBe(1);
    expect(running.peer.statuses[0]).toMatchObject({
      figures: { queueRecords: 0n, droppedRecordsTotal: 0n },
    });
    expect(running.heartbeats()).toEqual([]);
  });

  it("are sent by HTTP to a core that does not offer it", async () => {
    await running.start();
    await expect.poll(() => running.heartbeats().length).toBeGreaterThan(1);
    expect(running.peer.statuses).toEqual([]);
  });

  it("carry the report again when core asks for it, after ten minutes, and on a directive", async () => {
    let needed = false;
    running.peer.behaviour.answerStatus = ({ report }) => ({
      nextStatusSeconds: 90,
      reportNeeded: needed && report.length === 0,
    });
    await running.start();
    await wait(1);
    needed = true;
    await skip(90, 100_000);
    await wait(3);
    needed = false;
    await skip(90, 100_000);
    await wait(4);
    await skip(90, 601_000);
    await wait(5);
    running.peer.direct({ action: { case: "reportNow", value: {} } });
    await wait(6);
    expect(reports().map((report) => report !== null)).toEqual([
      true,
      false,
      true,
      false,
      true,
      true,
    ]);
  });

  it("are repeated by HTTP when core refuses one, or the stream ends before the answer", async () => {
    running.peer.behaviour.answerStatus = () => ({ refused: "stale_request" });
    running.onHeartbeat(() => heartbeatAnswer({ next_heartbeat_seconds: 3600 }));
    await running.start();
    await expect.poll(() => running.heartbeats().length).toBe(1);
    expect(running.peer.statuses).toHaveLength(1);
    running.peer.behaviour.answerStatus = () => {
      running.peer.disconnect();
      return {};
    };
    await skip(3600, 4_000_000);
    await expect.poll(() => running.heartbeats().length).toBe(2);
  });

  it("follow at once when a stream opens after one that failed", async () => {
    const isLogged = (text: string) =>
      expect.poll(() => running.log.lines.map(({ message }) => message)).toContain(text);
    running.peer.behaviour.answerStatus = () => ({ nextStatusSeconds: 3600 });
    await running.start();
    await wait(1);
    running.peer.behaviour.answerStatus = () => ({ refused: "database_unavailable" });
    running.onHeartbeat(() => ({ status: 503, body: { code: "database_unavailable" } }));
    running.peer.direct({ action: { case: "reportNow", value: {} } });
    await isLogged("heartbeat failed");
    running.peer.behaviour.answerStatus = () => accept;
    running.peer.disconnect();
    await isLogged("heartbeats reach core again");
    expect(running.heartbeats()).toHaveLength(1);
  });

  it("follow a change of the report at once, four in a minute at most", async () => {
    running.peer.behaviour.answerStatus = () => accept;
    await running.start();
    await wait(1);
    await running.configure("sources: 7\n");
    await wait(2);
    await running.configure("sources: []\n");
    await wait(3);
    const last = reports();
    expect(last.map(({ config }) => config.valid)).toEqual([true, false, true]);
    await running.configure("sources: 8\n");
    await wait(4);
    await running.configure("sources: []\n");
    await expect
      .poll(
        () => running.log.lines.filter(({ message }) => /valid and in effect/.test(message)).length,
      )
      .toBe(1);
    expect(running.peer.statuses).toHaveLength(4);
  });
});

it("directives make the host fetch its config and renew by signed requests, after a part of the time that core says", async () => {
  running.peer.behaviour.answerStatus = () => accept;
  await running.start();
  await wait(1);
  expect(running.peer.opens).toEqual([{ takesDirectives: true }]);
  running.peer.direct({ action: { case: "configAssigned", value: {} }, spreadMs: 20 });
  running.peer.direct({ action: { case: "renewNow", value: {} } });
  await expect
    .poll(() => running.server.calls.map(({ path }) => path))
    .toContain("/v1/collector/renew");
  expect(running.server.calls.map(({ path }) => path)).not.toContain(
    "/v1/collector/config/desired",
  );
});
