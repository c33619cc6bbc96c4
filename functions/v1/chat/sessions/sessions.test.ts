import { eq, sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { chatMessage, chatSession } from "#drizzle/schema/chat.ts";
import { person } from "#drizzle/schema/operator.ts";
import { createTestConversation, namesOf } from "#tests/support/chat/chat.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();

const nobody = "01920000-0000-7000-8000-0000000000ff";

describe("conversations", () => {
  it("are listed with the last used first, page by page, and belong to one person", {
    tags: "workerd",
  }, async () => {
    const ids = [];
    for (let at = 0; at < 3; at++) {
      ids.push((await createTestConversation(test)).id);
      await test.clock.advance(1_000);
    }
    const [first = "", second = "", third = ""] = ids;
    await test.auditor.post(`/v1/chat/sessions/${first}/messages`, {
      content: "  Hello\n\tthere  ",
    });
    const list = (query: string) =>
      test.auditor.read<{ items: { id: string; title: string }[]; next_cursor: string }>(
        `/v1/chat/sessions${query}`,
      );
    const page = await list("?limit=2");
    expect(page.items.map(({ id }) => id)).toEqual([first, third]);
    expect(page.items[0]?.title).toBe("Hello there");
    const next = await list(`?limit=2&cursor=${page.next_cursor}`);
    expect(next).toMatchObject({ items: [{ id: second }], next_cursor: null });
    expect((await test.admin.read("/v1/chat/sessions")).items).toEqual([]);
  });

  it("can be renamed and deleted by their person; to anybody else they do not exist", {
    tags: "workerd",
  }, async () => {
    const { id, path } = await createTestConversation(test);
    const renamed = await test.auditor.put(path, { title: "Rollout" });
    expect(renamed).toMatchObject({ status: 200, body: { id, title: "Rollout" } });
    for (const title of ["", "x".repeat(121), "a\u0007b", 3])
      expect((await test.auditor.put(path, { title })).status).toBe(422);
    const calls: [method: string, path: string, body?: object][] = [
      ["GET", ""],
      ["PUT", "", { title: "Mine" }],
      ["DELETE", ""],
      ["POST", "/messages", { content: "a" }],
      ["GET", "/receipts"],
    ];
    for (const [method, rest, body] of calls) {
      const call = body ? { body } : {};
      const other = await test.api(method, path + rest, { as: "admin", ...call });
      const unknown = `/v1/chat/sessions/${nobody}${rest}`;
      const missing = await test.api(method, unknown, { as: "auditor", ...call });
      expect(missing.status, method + rest).toBe(404);
      expect({ ...other.body, request_id: "" }).toEqual({ ...missing.body, request_id: "" });
    }
    expect(await test.auditor.read(path)).toMatchObject({ title: "Rollout", messages: [] });
    expect((await test.auditor.delete(path)).status).toBe(204);
    expect((await test.auditor.delete(path)).status).toBe(404);
  });

  it("are refused to a suspended person with the next request", async () => {
    const { path } = await createTestConversation(test);
    const suspend = (status: "suspended" | "active") =>
      test.db.update(person).set({ status }).where(eq(person.userId, test.people.auditor.userId));
    await suspend("suspended");
    expect((await test.auditor.get(path)).status).toBe(401);
    expect((await test.auditor.post(`${path}/messages`, { content: "a" })).status).toBe(401);
    await suspend("active");
    expect((await test.auditor.get(path)).status).toBe(200);
  });

  it("have at most 100 questions, and a person at most 200 of them; none is deleted silently", {
    tags: "workerd",
  }, async () => {
    const { id, path } = await createTestConversation(test, "admin");
    await test.db.update(chatSession).set({ messageCount: 200 }).where(eq(chatSession.id, id));
    const refused = await test.admin.post(`${path}/messages`, { content: "a" });
    expect(refused).toMatchObject({ body: { code: "conflict" } });
    const now = new Date(test.clock.now());
    await test.db.insert(chatSession).values(
      Array.from({ length: 199 }, () => ({
        id: crypto.randomUUID(),
        userId: test.people.admin.userId,
        createdAt: now,
        updatedAt: now,
      })),
    );
    const one = await test.admin.post("/v1/chat/sessions", {});
    expect(one).toMatchObject({
      status: 409,
      body: { detail: "You have 200 conversations: delete one first" },
    });
    await test.admin.delete(path);
    expect((await test.admin.post("/v1/chat/sessions", {})).status).toBe(201);
  });
});

describe("a message", () => {
  it("has 1 byte to 32 KiB of UTF-8", async () => {
    const conversation = await createTestConversation(test);
    const status = async (content: unknown) =>
      (await test.auditor.post(`${conversation.path}/messages`, { content })).status;
    for (const content of ["", " \n", "a\u0000", "\ud800", null, 3])
      expect(await status(content)).toBe(422);
    expect(await status("é".repeat(16 * 1024))).toBe(200);
    expect(await status(`${"é".repeat(16 * 1024)}a`)).toBe(413);
    const unknown = { content: "a", base_url: "https://elsewhere.test" };
    expect((await test.auditor.post(`${conversation.path}/messages`, unknown)).status).toBe(422);
  });

  it("is answered as a stream of events that ends with `done`, whose receipts verify by the published keys", {
    tags: "workerd",
  }, async () => {
    const conversation = await createTestConversation(test);
    const answer = await conversation.ask("Hello");
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
    const events = await answer.rest();
    expect(namesOf(events)).toEqual(["receipt", "text_delta", "receipt", "receipt", "done"]);
    const { kinds, file } = await conversation.receipts();
    expect(kinds).toEqual(["user_message", "answer", "closing"]);
    const { keys } = await test.auditor.read("/v1/chat/receipt-keys");
    expect(keys).toContainEqual(file.keys[0]);
    expect(file.keys[0]).toMatchObject({ kid: file.head.key_id, svc_ephemeral: true });
  });
});

describe("a turn whose core was killed", () => {
  /** Leaves a conversation as a kill does: a question, and half an answer under a lease. */
  const killed = async (expiresIn: string) => {
    const conversation = await createTestConversation(test);
    await (await conversation.ask("Hello")).rest();
    const answerId = crypto.randomUUID();
    await test.db.insert(chatMessage).values({
      id: answerId,
      sessionId: conversation.id,
      position: 4,
      role: "assistant",
      status: "answering",
      createdAt: new Date(test.clock.now()),
      parts: [],
      tail: "Half an ans",
      provider: "mock",
      model: "m",
    });
    await test.db
      .update(chatSession)
      .set({
        messageCount: 4,
        turnId: answerId,
        turnExpiresAt: sql`clock_timestamp() + ${expiresIn}::interval`,
      })
      .where(eq(chatSession.id, conversation.id));
    return conversation;
  };

  it("T6: is closed as aborted, with its text, when the conversation is read or continued after the lease", {
    tags: "workerd",
  }, async () => {
    const read = await killed("-1 s");
    expect((await read.read()).messages.at(-1)).toMatchObject({
      status: "aborted",
      parts: [{ type: "text", text: "Half an ans" }],
    });
    const { items } = await test.auditor.read<{ items: object[] }>(`${read.path}/receipts`);
    expect(items.slice(-2)).toMatchObject([
      { payload: { text: "Half an ans", provider: "mock", model: "m" } },
      { payload: { status: "aborted", length: 5 } },
    ]);
    const continued = await killed("-1 s");
    expect((await continued.ask("again")).status).toBe(200);
  });

  it("is left alone while its lease is valid: another core may be writing it", async () => {
    const alive = await killed("1 hour");
    expect((await alive.read()).messages.at(-1)).toMatchObject({
      status: "answering",
      parts: [{ text: "Half an ans" }],
    });
    expect((await alive.ask("again")).status).toBe(409);
  });
});

describe("the switches", () => {
  const paths: readonly [string, string][] = [
    ["GET", "/v1/chat/status"],
    ["GET", "/v1/chat/receipt-keys"],
    ["GET", "/v1/chat/sessions"],
    ["POST", "/v1/chat/sessions"],
    ["PUT", `/v1/chat/sessions/${nobody}`],
    ["POST", `/v1/chat/sessions/${nobody}/messages`],
    ["GET", "/v1/chat/anything"],
  ];

  it("SVC_CHAT_ENABLED=false answers 503 on every path, to anybody", async () => {
    const off = await useTestCore({ env: { SVC_CHAT_ENABLED: "false" } });
    for (const [method, path] of paths)
      for (const call of [{}, { as: "auditor" as const }])
        expect(await off.api(method, path, call)).toMatchObject({
          body: { code: "service_disabled" },
        });
  });

  it("without a model the routes do not exist, whatever the provider", async () => {
    const none = await useTestCore({
      env: { SVC_INFERENCE_CHAT_MODEL: "", SVC_INFERENCE_PROVIDER: "mock" },
    });
    for (const [method, path] of paths)
      expect((await none.api(method, path, { as: "auditor" })).status).toBe(404);
  });

  it("the status names model, tools and key", { tags: "workerd" }, async () => {
    expect(await test.auditor.read("/v1/chat/status")).toMatchObject({
      provider: "mock",
      model: "test-model",
      sql_tools: { offered: false, reason: expect.any(String) },
      receipts: { ephemeral: true },
    });
  });
});
