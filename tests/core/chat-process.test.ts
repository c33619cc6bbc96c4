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
import { startCore, startProgram, stopProgram } from "../support/program.ts";

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
const startChat = async (env: Record<string, string>, entry?: string) => {
  const core = await startCore(env, entry);
  const call = async (method: string, path: string, init: RequestInit = {}) => {
    const caller = { sub: people.auditor.userId, now: Date.now() };
    const token = await mintBridgeToken(env.SVC_AUTH_TOKEN_SECRET ?? "", caller);
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    return fetch(core.url + path, { method, headers, ...init });
  };
  return { ...core, call, read: async (path: string) => (await call("GET", path)).json() };
};
type ChatCore = Awaited<ReturnType<typeof startChat>>;

const startProvider = async (script: readonly ScriptedReply[]) => {
  const provider = await startModelProvider("openai", script);
  onTestFinished(() => provider.close());
  return provider;
};

const begin = async ({ call }: ChatCore) => {
  const response = await call("POST", "/v1/chat/sessions", { body: "{}" });
  return `/v1/chat/sessions/${(await response.json()).id}`;
};
const ask = ({ call }: ChatCore, path: string, signal?: AbortSignal) => {
  const body = JSON.stringify({ content: "What is wrong?" });
  return call("POST", `${path}/messages`, { body, ...(signal ? { signal } : {}) });
};
const lastStatus = async ({ read }: ChatCore, path: string) =>
  (await read(path)).messages.at(-1)?.status;
const receiptsOf = ({ read }: ChatCore, path: string): Promise<ReceiptFile> =>
  read(`${path}/receipts`);
const receiptKeysOf = async ({ read }: ChatCore): Promise<ReceiptFile["keys"]> =>
  (await read("/v1/chat/receipt-keys")).keys;
const signedBy = (id: string, file = keyFile(`${id}.pem`)) => ({
  SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: file,
  SVC_CHAT_RECEIPT_SIGNING_KEY_ID: id,
});

it("T6: core that is killed in mid-answer closes the chain as aborted at its next start, and the receipts verify", async () => {
  const provider = await startProvider([{ stallAfter: [{ text: "Two hosts are " }] }]);
  const env = { ...withModel(provider), ...signedBy("receipts-2026") };
  const killed = await startChat(env);
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

  const core = await startChat(env);
  await eventually(async () => expect((await db.select().from(chatSession))[0]?.turnId).toBeNull());
  const file = await receiptsOf(core, path);
  expect(file.items.map(({ kind }) => kind)).toEqual(["user_message", "answer", "closing"]);
  expect(file.items.slice(1).map(({ payload }) => payload)).toMatchObject([
    { text: "Two hosts are ", provider: "openai-compatible", model: "fake-model" },
    { status: "aborted", length: 3 },
  ]);
  const verified = await verifyReceipts(file, await receiptKeysOf(core));
  expect(verified).toEqual({ checked: 3, turns: 1, fault: null });
  expect(await lastStatus(core, path)).toBe("aborted");
});

it("a client that disconnects from core aborts the request to the provider", async () => {
  const provider = await startProvider([{ stallAfter: [{ text: "Half" }] }, { silent: true }]);
  const core = await startChat(withModel(provider));
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
  const core = await startChat(withModel(provider));
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

describe("a core that signs receipts", () => {
  const mock = { ...usual(), ...withoutTools, SVC_INFERENCE_CHAT_MODEL: "mock-1" };
  let path: string;
  beforeAll(async () => {
    const before = await startChat({ ...mock, ...signedBy("receipts-1") });
    path = await begin(before);
    await (await ask(before, path)).text();
    expect(await stopProgram(before.program)).toBe(0);
  });

  const keyPath = "SVC_CHAT_RECEIPT_SIGNING_KEY_PATH";
  it.each<[key: string, file: string, variable: string, message: string]>([
    [
      "of another kind",
      keyFile("x.pem", "x25519"),
      keyPath,
      "must hold an unencrypted Ed25519 private key",
    ],
    [
      "that others may read",
      keyFile("open.pem", "ed25519", 0o640),
      keyPath,
      "open to group or world",
    ],
    ["that is not there", join(directory, "gone.pem"), keyPath, "cannot be read (ENOENT)"],
    [
      "whose id is taken",
      keyFile("2.pem"),
      "SVC_CHAT_RECEIPT_SIGNING_KEY_ID",
      "is the id of another key",
    ],
  ])(
    "fails to start with a key %s, by the name of the variable",
    async (_, file, variable, message) => {
      const program = startProgram("functions/main.ts", [], {
        ...mock,
        ...signedBy("receipts-1", file),
      });
      expect(await program.exited).toBe(78);
      expect(program.stderr).toContain(`  ${variable}: `);
      expect(program.stderr).toContain(message);
      expect(program.stderr).not.toContain(directory);
    },
  );

  it("goes on with another key in a conversation, whose earlier receipts verify by the previous one", async () => {
    const after = await startChat({ ...mock, ...signedBy("receipts-2") });
    await (await ask(after, path)).text();
    const file = await receiptsOf(after, path);
    const published = await receiptKeysOf(after);
    expect([...new Set(file.items.map(({ key_id: id }) => id))]).toEqual([
      "receipts-1",
      "receipts-2",
    ]);
    for (const keys of [file.keys, published])
      expect(await verifyReceipts(file, keys)).toMatchObject({ turns: 2, fault: null });
    const onlyNew = published.filter(({ kid }) => kid === "receipts-2");
    expect((await verifyReceipts(file, onlyNew)).fault).not.toBeNull();
  });
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
    const core = await startChat(
      { ...usual(), ...env, SVC_DATABASE_URL: own.url, NODE_OPTIONS },
      `${import.meta.dirname}/../../functions/main.ts`,
    );
    const ready: { checks: { name: string; detail: string }[] } = await core.read("/readyz");
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
    expect(detail).toContain("The SQL tools are off: SVC_CHAT_SQL_TOOL_ENABLED is false");
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
