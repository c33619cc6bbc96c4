/**
 * A dialogue with a whole core: a process on a database of its own, asked over HTTP, its answers compared with statements over the tables
 * that share no code with core, its receipts verified by `svc-server verify-receipts`.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ReceiptFile } from "../../proto/chat/receipt.ts";
import { verifyReceipts } from "../../proto/chat/verify-receipts.ts";
import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import { type ChatClient, readReceiptKeys, type SendChat, startConversation } from "../../scripts/lab/chat-client.ts";
import { prepareIngestCore } from "../../scripts/lab/ingest-core.ts";
import { bridgeTokenOf, createOperatorApi, type OperatorApi } from "../../scripts/lab/operator-api.ts";
import { seedPeople } from "../../scripts/lab/people.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { openEmbeddedDatabase } from "../../scripts/postgres/embedded-database.ts";
import { readTruth, type TruthName, type Truths } from "../support/fleet-truth.ts";
import { programFile } from "../support/program.ts";

const secret = "a-secret-of-the-dialogue-of-more-than-32-bytes";
const cleanup = new AsyncDisposableStack();
afterAll(() => cleanup.disposeAsync());
const folder = mkdtempSync(join(tmpdir(), "svc-dialogue-"));
cleanup.defer(() => rmSync(folder, { recursive: true }));

// A server of its own: core takes privileges from PUBLIC at its start.
const database = cleanup.use(await openEmbeddedDatabase());
const { sql } = database;
let send: SendChat;
let api: OperatorApi;
let conversation: ChatClient;

beforeAll(async () => {
  await seedPeople(database.db, Date.now());
  await seedFleet(database.db, { count: 320, now: new Date() });
  // A rollout stopped the forwarding of these an hour ago. The triggers move the time in fleet_status forwards only.
  const [rollout, earlier] = [
    sql`select identity from fleet where platform = 'windows/amd64' and version = '1.11.0'`,
    sql`select identity from fleet where device_id = 'host-1'`,
  ];
  for (const [hosts, age] of [
    [rollout, "1 hour"],
    [earlier, "2 days"],
  ] as const) {
    await sql`update ingest_host set last_envelope_at = now() - ${age}::interval where host_id in (${hosts})`;
    await sql`update fleet_status set last_envelope_at = now() - ${age}::interval
      where identity in (${hosts}) and last_envelope_at > '-infinity'`;
  }
  const files = await prepareIngestCore(database.url, {
    env: {
      SVC_AUTH_TOKEN_SECRET: secret,
      SVC_INFERENCE_CHAT_MODEL: "mock",
      SVC_COLLECTOR_MIN_VERSION: "1.0.0",
    },
    program: programFile("functions/main.ts"),
  });
  cleanup.defer(() => files.remove());
  const core = await files.start();
  cleanup.defer(() => void core.process.kill("SIGKILL"));
  const origin = `http://127.0.0.1:${core.port}`;
  api = createOperatorApi(origin, secret);
  const headers = { Authorization: `Bearer ${await bridgeTokenOf(secret, "auditor")}` };
  send = (path, init) => fetch(`${origin}/v1/chat${path}`, { ...init, headers: { ...init?.headers, ...headers } });

  const { items } = await api<FleetHealthReport>("auditor", "GET", "/v1/collector/health?device=host-2");
  await api("admin", "POST", `/v1/collector/identities/${items[0]?.identity_id}/revoke`, {
    reason_code: "stolen_device",
  });
  const stranger = await fetch(`${origin}/v1/collector/enroll`, { method: "POST", body: "{}" });
  expect(stranger.status).toBe(401);
  conversation = await startConversation(send);
});

/** A question, and what its answer must say by what the tables hold. */
const asked = <Name extends TruthName>(
  question: string,
  name: Name,
  claims: (truth: Truths[Name]) => readonly (string | RegExp)[],
) => ({
  question,
  /** Asks until the truth is the same before and after the answer: a host may become stale meanwhile. */
  ask: async () => {
    for (;;) {
      const before = await readTruth(sql, name);
      const { text } = await conversation.ask(question);
      if (JSON.stringify(before) === JSON.stringify(await readTruth(sql, name)))
        return { text, claims: claims(before) };
    }
  },
});

const dialogue = [
  asked("How many hosts need attention right now?", "states", (states) => {
    const sum = (rows: typeof states) => rows.reduce((total, { hosts }) => total + hosts, 0);
    const troubled = states.filter(({ state }) => state !== "healthy" && state !== "enrolling");
    return [
      `${sum(troubled)} hosts of ${sum(states)} need attention`,
      ...troubled.map(({ state, hosts }) => `- ${state}: ${hosts} host`),
    ];
  }),
  asked("Which hosts are stale?", "stale", (hosts) => [
    new RegExp(`${hosts.length} hosts of \\d+ in the state stale`),
    ...hosts.slice(0, 10).map(({ device_id }) => `- ${device_id}:`),
  ]),
  asked(
    "Which hosts stopped forwarding in the last 2 hours since the rollout, and what do they have in common?",
    "stopped",
    ([found]) => [
      new RegExp(`${found?.hosts} hosts of \\d+ stopped forwarding in the last 2 h`),
      `- version ${found?.version}: ${found?.hosts} of them`,
      `- platform ${found?.platform}: ${found?.hosts} of them`,
    ],
  ),
  asked("Which hosts never sent us anything?", "never", (hosts) => [
    new RegExp(`${hosts.length} hosts of \\d+ sent heartbeats and never`),
  ]),
  asked("Which certificates run out in the next 12 days?", "expiring", ([found]) => [
    new RegExp(`${found?.expiring} hosts of \\d+ have a certificate that expires within 12 d`),
  ]),
  asked("What versions are out there?", "versions", (versions) =>
    versions.map(({ version, hosts }) => `- ${version}: ${hosts} hosts`),
  ),
  asked("Which hosts drifted from the config we assigned?", "drift", (kinds) =>
    kinds
      .filter(({ drift }) => drift === "drifted" || drift === "on_last_known_good")
      .map(({ drift, hosts }) => `- ${drift}: ${hosts} hosts`),
  ),
  asked("Are any queues at risk?", "queues", ([found]) => [
    new RegExp(`${found?.at_risk} hosts of \\d+ have a queue at risk`),
  ]),
  asked("Do hosts drop records?", "queues", ([found]) => [new RegExp(`${found?.dropping} hosts of \\d+ lost data`)]),
  asked("What is wrong with host-104?", "host", ([found]) => [
    `host-104: state ${found?.state}`,
    `identity ${found?.identity}`,
    `version ${found?.version}`,
  ]),
  asked("Who changed what in the last hour?", "changes", (changes) =>
    changes.map(
      ({ actor, action, host, reason }) => `- ${action}: of ${host}, by ${actor}, outcome success, reason ${reason}`,
    ),
  ),
  asked("Which enrollments were refused today?", "refusals", (refusals) =>
    refusals.map(({ action, reason, events }) => new RegExp(`- ${action}: .*reason ${reason}, ${events} event`)),
  ),
];

describe("a dialogue with core", () => {
  it.each(dialogue)("answers what the tables hold: $question", async ({ ask }) => {
    const { text, claims } = await ask();
    expect(claims.length).toBeGreaterThan(0);
    expect(claims.join()).not.toMatch(/undefined|null|NaN/);
    for (const claim of claims)
      expect(text).toEqual(typeof claim === "string" ? expect.stringContaining(claim) : expect.stringMatching(claim));
  });

  it("has receipts that verify offline, by the keys of core", async () => {
    const { raw, file } = await conversation.receipts();
    const turns = file.items.filter(({ kind }) => kind === "closing").length;
    expect(turns).toBeGreaterThanOrEqual(dialogue.length);
    expect(verify(raw, await readReceiptKeys(send))).toMatchObject({
      status: 0,
      result: { ok: true, checked: file.items.length, turns, keys: "given", ephemeral: true, fault: null },
    });
  });

  it("T5: verification names the receipt when one byte was changed, one was removed, or two were swapped", async () => {
    const { raw, file } = await conversation.receipts();
    const keys = await readReceiptKeys(send);
    const at = file.items.findIndex(({ kind }) => kind === "answer");
    const text = String(file.items[at]?.payload.text);
    const digit = /\d/.exec(text)?.[0] ?? "";
    const quoted = JSON.stringify(text);
    const changed = raw.replace(quoted, () => quoted.replace(digit, String((Number(digit) + 1) % 10)));
    expect(changed.length).toBe(raw.length);
    const fault = (kind: string) => ({ status: 1, result: { ok: false, checked: at, fault: { seq: at + 1, kind } } });
    expect(verify(changed, keys)).toMatchObject(fault("payload"));
    expect(verify(JSON.stringify(without(file, at)), keys)).toMatchObject(fault("sequence"));
    expect(verify(JSON.stringify(swapped(file, at)), keys)).toMatchObject(fault("sequence"));
  });

  it("T5: this holds for every receipt and field of a conversation", async () => {
    const short = await startConversation(send);
    await short.ask("Which hosts are stale?");
    await short.ask("Hello");
    const { file } = await short.receipts();
    const kinds = ["user_message", "tool_call", "tool_result", "answer", "closing"];
    expect(new Set(file.items.map(({ kind }) => kind))).toEqual(new Set(kinds));
    const last = file.items.length - 1;
    for (const [at, item] of file.items.entries()) {
      for (const field of Object.keys(item) as (keyof typeof item)[]) {
        const items = file.items.with(at, { ...item, [field]: edited(item[field]) });
        expect([field, (await verifyReceipts({ ...file, items })).fault?.seq]).toEqual([field, at + 1]);
      }
      expect((await verifyReceipts(without(file, at))).fault?.seq).toBe(at + 1);
      if (at < last) expect((await verifyReceipts(swapped(file, at))).fault?.seq).toBe(at + 1);
    }
  });
});

/** Runs `svc-server verify-receipts` without any environment. */
const verify = (receipts: string, keys: object) => {
  const paths = Object.entries({ receipts, keys: JSON.stringify(keys) }).map(([name, content]) => {
    const path = join(folder, `${name}.json`);
    writeFileSync(path, content);
    return path;
  });
  const args = [programFile("functions/main.ts"), "verify-receipts", paths[0] ?? "", "--keys", paths[1] ?? ""];
  const { status, stdout } = spawnSync(process.execPath, args, { env: {}, encoding: "utf8", timeout: 60_000 });
  return { status, result: JSON.parse(stdout) };
};

const without = (file: ReceiptFile, at: number): ReceiptFile => ({ ...file, items: file.items.toSpliced(at, 1) });

const swapped = (file: ReceiptFile, at: number): ReceiptFile => ({
  ...file,
  items: file.items.toSpliced(at, 2, ...file.items.slice(at, at + 2).reverse()),
});

/** Returns a value with its first character changed, or a number that is one higher, or an object with its first member edited. */
const edited = (value: unknown): unknown => {
  if (typeof value === "number") return value + 1;
  if (typeof value === "string") return `${value.startsWith("1") ? "2" : "1"}${value.slice(1)}`;
  const [[name, member] = ["", ""]] = Object.entries(value as object);
  return { ...(value as object), [name]: edited(member) };
};
