/**
 * A dialogue with a whole core: a process on a database of its own, asked over HTTP, its answers compared with statements over the tables
 * that share no code with core, its receipts verified by `svc-server verify-receipts`.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type ChatClient,
  readReceiptKeys,
  type SendChat,
  startConversation,
} from "#scripts/lab/chat-client.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { bridgeTokenOf } from "#scripts/lab/operator-api.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { readStates } from "../support/fleet-truth.ts";
import { programFile } from "../support/program.ts";

const secret = "a-secret-of-the-dialogue-of-more-than-32-bytes";
const cleanup = new AsyncDisposableStack();
afterAll(() => cleanup.disposeAsync());
const folder = newFolder();

// A server of its own: core takes privileges from PUBLIC at its start.
const database = cleanup.use(await openEmbeddedDatabase());
const { sql } = database;
let send: SendChat;
let conversation: ChatClient;

beforeAll(async () => {
  await seedPeople(database.db, Date.now());
  await seedFleet(database.db, { count: 320, now: new Date() });
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
  const headers = { Authorization: `Bearer ${await bridgeTokenOf(secret, "auditor")}` };
  send = (path, init) =>
    fetch(`${origin}/v1/chat${path}`, { ...init, headers: { ...init?.headers, ...headers } });

  conversation = await startConversation(send);
});

it("answers what the tables hold", async () => {
  // Until the truth is the same before and after the answer: a host may become stale meanwhile.
  const ask = async () => {
    for (;;) {
      const before = await readStates(sql);
      const { text, results } = await conversation.ask("How many hosts need attention right now?");
      if (JSON.stringify(before) === JSON.stringify(await readStates(sql)))
        return { text, results, states: before };
    }
  };
  const { text, results, states } = await ask();
  const sum = (rows: typeof states) => rows.reduce((total, { hosts }) => total + hosts, 0);
  const troubled = states.filter(({ state }) => state !== "healthy" && state !== "enrolling");
  expect(troubled.length).toBeGreaterThan(4);
  expect(results.map(({ kind }) => kind)).toEqual(["relations", "relation", "rows"]);
  expect(text).toContain(`${sum(troubled)} hosts of ${sum(states)} need attention`);
  for (const { state, hosts } of states) expect(text).toContain(`- ${state}: ${hosts} host`);
});

it("has receipts that verify offline, by the keys of core", async () => {
  const { raw, file } = await conversation.receipts();
  const turns = file.items.filter(({ kind }) => kind === "closing").length;
  expect(turns).toBeGreaterThanOrEqual(1);
  expect(verify(raw, await readReceiptKeys(send))).toMatchObject({
    status: 0,
    result: {
      ok: true,
      checked: file.items.length,
      turns,
      keys: "given",
      ephemeral: true,
      fault: null,
    },
  });
});

it("T5: verification names the receipt of which one byte was changed", async () => {
  const { raw, file } = await conversation.receipts();
  const keys = await readReceiptKeys(send);
  const at = file.items.findIndex(({ kind }) => kind === "answer");
  const text = String(file.items[at]?.payload.text);
  const digit = /\d/.exec(text)?.[0] ?? "";
  const quoted = JSON.stringify(text);
  const changed = raw.replace(quoted, () =>
    quoted.replace(digit, String((Number(digit) + 1) % 10)),
  );
  expect(changed.length).toBe(raw.length);
  expect(verify(changed, keys)).toMatchObject({
    status: 1,
    result: { ok: false, checked: at, fault: { seq: at + 1, kind: "payload" } },
  });
});

/** Runs `svc-server verify-receipts` without any environment. */
const verify = (receipts: string, keys: object) => {
  const paths = Object.entries({ receipts, keys: JSON.stringify(keys) }).map(([name, content]) => {
    const path = join(folder, `${name}.json`);
    writeFileSync(path, content);
    return path;
  });
  const args = [
    programFile("functions/main.ts"),
    "verify-receipts",
    paths[0] ?? "",
    "--keys",
    paths[1] ?? "",
  ];
  const { status, stdout } = spawnSync(process.execPath, args, {
    env: {},
    encoding: "utf8",
    timeout: 60_000,
  });
  return { status, result: JSON.parse(stdout) };
};
