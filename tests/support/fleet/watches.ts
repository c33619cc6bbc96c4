import { sql } from "drizzle-orm";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { deliverMessages, type SendRequest } from "#functions/domain/watch/deliver.ts";
import { evaluateWatches } from "#functions/domain/watch/run-watches.ts";
import { createSessionKeeper } from "#functions/jobs/keep-core-session.ts";
import type { WatchDetail, WatchMessageBody } from "#proto/watch/watch.ts";
import { createTestToken, sendHeartbeat } from "../collector.ts";
import { useTestCore } from "../core.ts";

type Outcome = Awaited<ReturnType<SendRequest>>;

/** The secrets that sign messages: the present one, and the one before. */
export const watchSecrets = ["new", "old"].map(
  (which) => `whsec_${btoa(`the ${which} secret, of 32 bytes or so`)}`,
);
const [secret, previousSecret] = watchSecrets;
const receivers = `web_url: https://fleet.test
receivers:
  - {kind: webhook, name: hook, url: 'https://hook.test/in', secret: ${secret}, previous_secret: ${previousSecret}}
  - {kind: webhook, name: other, url: 'https://other.test/in', secret: ${secret}}
  - {kind: alertmanager, name: am, url: 'https://am.test', bearer_token: abc, labels: {severity: page}}`;

/** Creates a core with watches on 14 hosts, some of which are in the zone `dark`; the test answers what the core sends. */
export const createWatchLab = async () => {
  const test = await useTestCore({ env: { SVC_WATCH_RECEIVERS: receivers } });
  const { admin, auditor, clock, core } = test;
  const keepSession = createSessionKeeper(
    core,
    () => true,
    () => undefined,
  );
  await createHistoryKeeper(core)();
  const { enroll } = await createTestToken(test);
  const names = Array.from({ length: 14 }, (_, n) => `host-${n}`);
  const hosts = await Promise.all(names.map((name) => enroll(name, "ed25519")));
  const path = "/v1/collector/watches";
  const sent: Parameters<SendRequest>[0][] = [];
  let watches = 0;
  const lab = {
    ...test,
    keepSession,
    /** The requests to receivers, and their outcome. */
    sent,
    answer: (): Outcome => ({ status: "delivered" }),
    send: async (request: (typeof sent)[number]) => {
      sent.push(request);
      return lab.answer();
    },
    deliver: () => deliverMessages(core, lab.send),
    /** Sends heartbeats of hosts, from the first given: those before `dark` are in the zone that is watched, and five are in rack 7. */
    beat: (dark: number, from = 0) =>
      Promise.all(
        hosts.slice(from).map((host, index) => {
          const n = from + index;
          const labels = { zone: n < dark ? "dark" : "light", rack: n < 5 ? "7" : "8" };
          return sendHeartbeat(test, host, { labels });
        }),
      ),
    /** Lets ten seconds pass and runs the job, as often as told. */
    tick: async (times = 1) => {
      for (let passed = 0; passed < times; passed += 1) {
        for (const _ of ["twice", "a tick"]) {
          await clock.advance(5000);
          await keepSession();
        }
        await evaluateWatches(core);
        await lab.deliver();
      }
    },
    /** Creates a watch that fires at once, or as its fields say. */
    create: async (fields: object = {}) => {
      const usual = {
        filter: "label.zone:dark",
        more_than: 2,
        for_seconds: 0,
        receivers: ["hook"],
      };
      const body = { name: `watch ${++watches}`, ...usual, ...fields };
      return (await admin.post<WatchDetail>(path, body)).body.id;
    },
    show: (id: string) => auditor.read<WatchDetail>(`${path}/${id}`),
    /** Changes a watch at its revision. */
    change: async (id: string, fields: object) => {
      const { name, filter, revision } = await lab.show(id);
      return admin.put(`${path}/${id}`, { name, filter, revision, ...fields });
    },
    act: (id: string, verb: string, body?: object) => admin.post(`${path}/${id}/${verb}`, body),
    remove: (id: string) => admin.delete(`${path}/${id}`),
    /** The messages that webhooks got. */
    messages: () =>
      sent.flatMap(({ url, body }): WatchMessageBody[] =>
        url.endsWith("/in") ? [JSON.parse(body)] : [],
      ),
    /** The types of the messages of a watch, such as `firing`. */
    typesOf: (id: string) =>
      lab
        .messages()
        .flatMap(({ type, data }) => (data.watch.id === id ? [type.replace("watch.", "")] : [])),
    /** The kinds of a watch's history, oldest first. */
    kindsOf: async (id: string) =>
      (await lab.show(id)).history.map(({ kind }) => kind).toReversed(),
    /** Deletes all watches and outages, and forgets what was sent. */
    reset: async () => {
      const { items } = await auditor.read<{ items: WatchDetail[] }>(`${path}?limit=200`);
      for (const { id } of items) await lab.remove(id);
      await core.db.execute(sql`truncate core_session, core_outage`);
      lab.answer = () => ({ status: "delivered" });
      await lab.beat(0);
      await lab.tick(3);
      sent.length = 0;
    },
  };
  return lab;
};
