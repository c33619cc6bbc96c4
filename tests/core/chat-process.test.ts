import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { chatMessage, chatSession } from "#drizzle/schema/chat.ts";
import type { ReceiptFile } from "#proto/chat/receipt.ts";
import { verifyReceipts } from "#proto/chat/verify-receipts.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { mintBridgeToken, people, seedPeople } from "#scripts/lab/people.ts";
import {
  type ModelProvider,
  type ScriptedReply,
  startModelProvider,
} from "../fakes/model-provider.ts";
import { type TestDatabase, useTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { newFolder } from "../support/new-folder.ts";
import { logged, startProgram, stopProgram } from "../support/program.ts";

const directory = newFolder();
const database = await useTestDatabase();
beforeAll(async () => {
  await seedPeople(database.connect().db, Date.now());
});

const keyFile = (name: string, type: "ed25519" | "x25519" = "ed25519", mode = 0o600) => {
  const { privateKey } = generateKeyPairSync(type as "ed25519");
  const path = join(directory, name);
  writeFileSync(path, privateKey.export({ type: "pkcs8", format: "pem" }), { mode });
  return path;
};

const usual = () => ({
  ...coreEnvironment(database.url),
  PORT: "0",
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_TRUST_LOOPBACK_OPS: "true",
});
/** The role of the SQL tools is one for all databases of the server, which other tests use too. */
const withoutTools = { SVC_CHAT_SQL_TOOL_ENABLED: "false" };
const withModel = (provider: ModelProvider) => ({
  ...usual(),
  SVC_INFERENCE_CHAT_MODEL: "fake-model",
  SVC_INFERENCE_PROVIDER: "openai-compatible",
  SVC_INFERENCE_API_KEY: provider.key,
  SVC_INFERENCE_BASE_URL: provider.baseUrl,
  ...withoutTools,
});

/** Starts core as a process; returns it with a function that calls its API as the auditor. */
const startCore = async (env: Record<string, string>, entry = "functions/main.ts") => {
  const program = startProgram(entry, [], env);
  onTestFinished(async () => {
    program.child.kill("SIGKILL");
    await program.exited;
  });
  const { port } = await logged(program, "ready");
  const call = async (method: string, path: string, init: RequestInit = {}) => {
    const token = await mintBridgeToken(env.SVC_AUTH_TOKEN_SECRET ?? "", {
      sub: people.auditor.userId,
      now: Date.now(),
    });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    return fetch(`http://127.0.0.1:${port}${path}`, { method, headers, ...init });
  };
  return { program, call };
};
type Core = Awaited<ReturnType<typeof startCore>>;

const startProvider = async (script: readonly ScriptedReply[]) => {
  const provider = await startModelProvider("openai", script);
  onTestFinished(() => provider.close());
  return provider;
};

const begin = async ({ call }: Core) => {
  const response = await call("POST", "/v1/chat/sessions", { body: "{}" });
  return `/v1/chat/sessions/${(await response.json()).id}`;
};
const ask = (core: Core, path: string, signal?: AbortSignal) =>
  core.call("POST", `${path}/messages`, {
    body: JSON.stringify({ content: "What is wrong?" }),
    ...(signal ? { signal } : {}),
  });
const lastStatus = async ({ call }: Core, path: string) =>
  (await (await call("GET", path)).json()).messages.at(-1)?.status;

it("T6: core that is killed in mid-answer closes the chain as aborted at its next start, and the receipts verify", async () => {
  const provider = await startProvider([{ stallAfter: [{ text: "Two hosts are " }] }]);
  const key = {
    SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: keyFile("receipts.pem"),
    SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-2026",
  };
  const env = { ...withModel(provider), ...key };
  const killed = await startCore(env);
  const path = await begin(killed);
  const answer = await ask(killed, path);
  expect(answer.status).toBe(200);
  // Stored with the renewal of the lease.
  const { db } = database.connect();
  await eventually(async () =>
    expect(await db.select().from(chatMessage)).toContainEqual(
      expect.objectContaining({ tail: "Two hosts are " }),
    ),
  );
  killed.program.child.kill("SIGKILL");
  await once(killed.program.child, "exit");
  await answer.body?.cancel().catch(() => undefined);
  // As six seconds later.
  await db.update(chatSession).set({ turnExpiresAt: new Date(0) });

  const core = await startCore(env);
  await eventually(async () => expect((await db.select().from(chatSession))[0]?.turnId).toBeNull());
  const file = (await (await core.call("GET", `${path}/receipts`)).json()) as ReceiptFile;
  expect(file.items.map(({ kind }) => kind)).toEqual(["user_message", "answer", "closing"]);
  expect(file.items.slice(1).map(({ payload }) => payload)).toMatchObject([
    { text: "Two hosts are ", provider: "openai-compatible", model: "fake-model" },
    { status: "aborted", length: 3 },
  ]);
  const keys = await (await core.call("GET", "/v1/chat/receipt-keys")).json();
  expect(await verifyReceipts(file, keys.keys)).toEqual({ checked: 3, turns: 1, fault: null });
  expect(await lastStatus(core, path)).toBe("aborted");
  expect(await stopProgram(core.program)).toBe(0);
});

it("a client that disconnects from core aborts the request to the provider", async () => {
  const provider = await startProvider([{ stallAfter: [{ text: "Half" }] }, { silent: true }]);
  const core = await startCore(withModel(provider));
  const path = await begin(core);
  const client = new AbortController();
  expect((await ask(core, path, client.signal)).status).toBe(200);
  expect(provider.open()).toBe(1);
  client.abort();
  await eventually(() => expect(provider.open()).toBe(0));
  await eventually(async () => expect(await lastStatus(core, path)).toBe("aborted"));

  // And before the response has begun.
  const silent = new AbortController();
  const asking = ask(core, path, silent.signal).catch(() => "disconnected");
  await eventually(() => expect(provider.open()).toBe(1));
  silent.abort();
  expect(await asking).toBe("disconnected");
  await eventually(() => expect(provider.open()).toBe(0));
  await eventually(async () => expect(await lastStatus(core, path)).toBe("aborted"));
});

it("core with an answer under way ends within its grace on SIGTERM, and closes the turn as aborted", async () => {
  const provider = await startProvider([{ stallAfter: [{ text: "Half" }] }]);
  const core = await startCore(withModel(provider));
  const path = await begin(core);
  const answer = await ask(core, path);
  core.program.child.kill("SIGTERM");
  expect(await answer.text()).toMatch(/event: error\ndata: \{[^\n]*"code":"shutting_down"/);
  expect(await core.program.exited).toBe(0);
  const [row] = await database
    .connect()
    .db.select()
    .from(chatSession)
    .orderBy(chatSession.createdAt)
    .then((rows) => rows.slice(-1));
  expect(row?.turnId).toBeNull();
});

const ended = async (env: Record<string, string>) => {
  const program = startProgram("functions/main.ts", [], env);
  const code = await program.exited;
  return { code, stderr: program.stderr };
};

it("a receipt key that cannot be used, or an id that another key has, fails the start by variable name", async () => {
  const mock = {
    ...usual(),
    ...withoutTools,
    SVC_INFERENCE_CHAT_MODEL: "mock-1",
    SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-1",
  };
  const first = await startCore({
    ...mock,
    SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: keyFile("first.pem"),
  });
  expect(await stopProgram(first.program)).toBe(0);
  const faults: [file: string, variable: string, message: string][] = [
    [
      keyFile("x.pem", "x25519"),
      "SVC_CHAT_RECEIPT_SIGNING_KEY_PATH",
      "must hold an unencrypted Ed25519 private key",
    ],
    [
      keyFile("open.pem", "ed25519", 0o640),
      "SVC_CHAT_RECEIPT_SIGNING_KEY_PATH",
      "open to group or world",
    ],
    [join(directory, "gone.pem"), "SVC_CHAT_RECEIPT_SIGNING_KEY_PATH", "cannot be read (ENOENT)"],
    [keyFile("second.pem"), "SVC_CHAT_RECEIPT_SIGNING_KEY_ID", "is the id of another key"],
  ];
  for (const [file, variable, message] of faults) {
    const { code, stderr } = await ended({ ...mock, SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: file });
    expect({ file, code, stderr }).toEqual({
      file,
      code: 78,
      stderr: expect.stringContaining(`  ${variable}: `),
    });
    expect(stderr).toContain(message);
    expect(stderr).not.toContain(directory);
  }
});

it("receipts of the previous signing key verify after its rotation, in the conversation that continues with the new one", async () => {
  const keyOf = (id: string) => ({
    SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: keyFile(`${id}.pem`),
    SVC_CHAT_RECEIPT_SIGNING_KEY_ID: id,
  });
  const mock = { ...usual(), ...withoutTools, SVC_INFERENCE_CHAT_MODEL: "mock-1" };
  const before = await startCore({ ...mock, ...keyOf("rotated-1") });
  const path = await begin(before);
  await (await ask(before, path)).text();
  expect(await stopProgram(before.program)).toBe(0);

  const after = await startCore({ ...mock, ...keyOf("rotated-2") });
  await (await ask(after, path)).text();
  const file = (await (await after.call("GET", `${path}/receipts`)).json()) as ReceiptFile;
  const published = (await (await after.call("GET", "/v1/chat/receipt-keys")).json()) as {
    keys: ReceiptFile["keys"];
  };
  expect([...new Set(file.items.map(({ key_id: id }) => id))]).toEqual(["rotated-1", "rotated-2"]);
  for (const keys of [file.keys, published.keys])
    expect(await verifyReceipts(file, keys)).toMatchObject({ turns: 2, fault: null });
  const onlyNew = published.keys.filter(({ kid }) => kid === "rotated-2");
  expect((await verifyReceipts(file, onlyNew)).fault).not.toBeNull();
  expect(await stopProgram(after.program)).toBe(0);
});

/** Reports on stderr which of these packages a process loads, and the API's document. */
const reportLoads = `import { registerHooks } from "node:module";
const chat = /(?<=node_modules\\/)(ai|zod|libpg-query|@ai-sdk\\/[a-z-]+)(?=\\/)|openapi\\.json$/;
registerHooks({ load(url, context, next) {
  const found = chat.exec(url);
  if (found) process.stderr.write("loads " + found[0] + "\\n");
  return next(url, context);
} });`;

describe("the packages of chat", () => {
  let own: TestDatabase;
  beforeEach(async () => {
    own = await useTestDatabase();
  });

  /** Starts core from its source, since in a bundle packages are not files; returns what it loads until it is ready. */
  const loads = async (env: Record<string, string>) => {
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(reportLoads)}`;
    const core = await startCore(
      { ...usual(), ...env, SVC_DATABASE_URL: own.url, NODE_OPTIONS },
      `${import.meta.dirname}/../../functions/main.ts`,
    );
    const ready = (await (await core.call("GET", "/readyz")).json()) as {
      checks: { name: string; detail: string }[];
    };
    const warned = core.program.records.some(({ msg }) =>
      String(msg).startsWith("receipts of chat are signed with an"),
    );
    expect(await stopProgram(core.program)).toBe(0);
    const packages = new Set(
      Array.from(core.program.stderr.matchAll(/^loads (.*)$/gm), ([, name]) => name),
    );
    const detail = ready.checks.find(({ name }) => name === "chat")?.detail;
    return { packages: [...packages].sort(), warned, detail };
  };
  const model = { SVC_INFERENCE_CHAT_MODEL: "m" };
  const provider = { SVC_INFERENCE_PROVIDER: "anthropic", SVC_INFERENCE_API_KEY: "sk-0" };
  /** The roles of the SQL tools, and whether core has taken rights from PUBLIC. */
  const readRoles = async () => {
    const { sql } = own.connect();
    return [
      ...(await sql`select split_part(rolname, '_', 2) as name, (select count(*)::int > 0 from chat_revoked_grant) as taken
        from pg_roles where rolname like 'svc%' || (select oid from pg_database where datname = current_database()) order by 1`),
    ];
  };

  it("are not loaded without a model, nor is the document of core's API", async () => {
    expect(await loads({})).toEqual({ packages: [], warned: false, detail: undefined });
  });

  it("are not loaded while chat is disabled", async () => {
    expect(await loads({ ...model, SVC_CHAT_ENABLED: "false" })).toMatchObject({ packages: [] });
  });

  it("are those of the provider without the SQL tools, for which core makes no role", async () => {
    const { packages, detail } = await loads({ ...model, ...provider, ...withoutTools });
    expect(packages).toEqual(expect.arrayContaining(["@ai-sdk/anthropic", "ai", "zod"]));
    expect(packages).not.toContain("libpg-query");
    expect(detail).toContain("the SQL tools are off: SVC_CHAT_SQL_TOOL_ENABLED is false");
    expect(await readRoles()).toEqual([]);
  });

  it("are PostgreSQL's parser alone with the mock, whose receipts an ephemeral key signs", async () => {
    expect(await loads(model)).toEqual({
      packages: ["libpg-query"],
      warned: true,
      detail: expect.stringContaining("ephemeral key"),
    });
    expect(await readRoles()).toEqual([
      { name: "chat", taken: true },
      { name: "public", taken: true },
    ]);
  });
});
