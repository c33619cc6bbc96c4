import { eq } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { Problem } from "#functions/problems.ts";
import type { PersonName } from "#scripts/lab/people.ts";
import { createFakeChatSql, oneRow } from "#tests/fakes/chat-sql.ts";
import { createPlayedInference } from "#tests/fakes/inference.ts";
import { createTestConversation, namesOf, textOfEvents } from "#tests/support/chat/chat.ts";
import { createTestChat, useTestCore } from "#tests/support/core.ts";
import { eventually } from "#tests/support/eventually.ts";

const model = createPlayedInference();
const sql = createFakeChatSql();
const stopping = new AbortController();
const chat = await createTestChat({
  inference: model,
  sql,
  sqlOffReason: null,
  stopping: stopping.signal,
});
const test = await useTestCore({ core: { chat } });

const outcomes = () =>
  test.observations.filter(({ method }) => method === "chatTurn").map(({ args }) => args[0]);
type Conversation = Awaited<ReturnType<typeof createTestConversation>>;
const lastAnswer = async (conversation: Conversation) => {
  const { messages } = await conversation.read();
  const { status, parts } = messages.at(-1) ?? {};
  return { status, parts };
};

const expectAborted = (conversation: Conversation) =>
  eventually(async () =>
    expect(await lastAnswer(conversation)).toMatchObject({ status: "aborted" }),
  );
const expectError = (events: readonly object[], data: object) =>
  expect(events.at(-1)).toMatchObject({ event: "error", data });
const auditOf = ({ id }: Conversation) => test.events(`target=${id}`);
type Round = Awaited<ReturnType<typeof model.round>>;
/** Ends a round of the model with a text. */
const say = (round: Round, text = "x") => {
  round.text(text);
  round.end();
};

/** Asks in a conversation of its own, up to the model's first round. */
const begin = async (text = "a", as: PersonName = "auditor") => {
  const conversation = await createTestConversation(test, as);
  const asking = conversation.ask(text);
  return { conversation, asking, round: await model.round() };
};

const messageRequest = async (path: string) =>
  new Request(`http://core.test${path}/messages`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Authorization: `Bearer ${await test.bridgeToken("auditor")}`,
    },
    body: JSON.stringify({ content: "a" }),
  });

describe("a turn", () => {
  it("streams text, tool calls with results, receipts and `done`, audits the call, and logs no content", async () => {
    const question = "How many hosts are offline?";
    const input = { statement: "select count(*) from collectors" };
    const { conversation, asking: answering, round: first } = await begin(question);
    expect(first.request.messages).toEqual([{ role: "user", text: question }]);
    expect(first.request.tools.map(({ name }) => name)).toEqual([
      "list_tables",
      "describe_table",
      "query_sql",
    ]);
    first.text("Let me ");
    const answer = await answering;
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    first.text("look.");
    first.call("query_sql", input, "c1");
    first.end();
    const second = await model.round();
    expect(second.request.messages.slice(1)).toEqual([
      {
        role: "assistant",
        parts: [
          { type: "text", text: "Let me look." },
          { type: "tool_call", callId: "c1", name: "query_sql", input },
        ],
      },
      { role: "tool", results: [{ callId: "c1", name: "query_sql", result: oneRow(3) }] },
    ]);
    say(second, "3 hosts.");
    const events = await answer.rest();
    expect(namesOf(events).join(" ")).toBe(
      "receipt text_delta tool_call receipt tool_result receipt text_delta receipt receipt done",
    );
    expect(textOfEvents(events)).toBe("Let me look.3 hosts.");
    const { kinds, file } = await conversation.receipts();
    expect(kinds.join(" ")).toBe("user_message tool_call tool_result answer closing");
    expect(file.items.map(({ payload: _, ...receipt }) => receipt)).toEqual(
      events.filter(({ event }) => event === "receipt").map(({ data }) => data),
    );
    expect(file.items[3]?.payload).toMatchObject({
      provider: "mock",
      model: "played",
      text: "Let me look.3 hosts.",
    });
    const { messages, ...read } = await conversation.read();
    expect(read).toMatchObject({ title: question, message_count: 2 });
    expect(messages.map(({ role, status }) => `${role} ${status}`)).toEqual([
      "user complete",
      "assistant complete",
    ]);
    const types = messages[1]?.parts.map(({ type }) => type).join(" ");
    expect(types).toBe("text tool_call tool_result text");
    expect(await auditOf(conversation)).toMatchObject([
      {
        action: "chat.tool_call",
        actor: { display: "grace@example.test" },
        outcome: "success",
        details: { tool: "query_sql", ...input, row_count: 1 },
      },
    ]);
    expect(test.log.text()).not.toMatch(/offline|3 hosts|select count/);
    expect(test.observations).toContainEqual({ method: "chatToolCall", args: ["query_sql", "ok"] });
    expect(outcomes()).toEqual(["complete"]);
  });

  it("receives the earlier turns, and gives a failed statement back to the model", async () => {
    const { conversation, asking, round: open } = await begin("one");
    open.text("first");
    const answer = await asking;
    expect((await conversation.ask("two")).status).toBe(409);
    // The round of "one" is still open.
    await answer.disconnect();
    const next = conversation.ask("two");
    const round = await model.round();
    expect(round.request.messages).toEqual([
      { role: "user", text: "one" },
      { role: "assistant", parts: [{ type: "text", text: "first" }] },
      { role: "user", text: "two" },
    ]);
    sql.result = { kind: "error", code: "refused", message: "pg_sleep is not allowed" };
    round.call("query_sql", { statement: "select pg_sleep(9)" });
    round.call("query_sql", { sql: "select 1" });
    round.call("describe_table", { name: "secrets" });
    round.end();
    const second = await model.round();
    const results = second.request.messages.flatMap((message) =>
      message.role === "tool" ? message.results : [],
    );
    expect(results.map(({ result }) => result)).toMatchObject([
      { kind: "error", code: "refused" },
      { kind: "error", code: "invalid_input" },
      { kind: "error", code: "unknown_relation" },
    ]);
    sql.result = oneRow(3);
    say(second, "no");
    const done = { event: "done", data: { status: "complete" } };
    expect((await (await next).rest()).at(-1)).toMatchObject(done);
    const { kinds } = await conversation.receipts();
    expect(kinds.filter((kind) => kind === "closing")).toHaveLength(2);
  });

  it("gives tool calls ids of their own when the model repeats one", async () => {
    const { asking, round } = await begin();
    for (const id of ["same", "same", "", "x".repeat(10_000)]) round.call("list_tables", {}, id);
    round.end();
    const events = (await asking).rest();
    say(await model.round());
    const ids = (await events).flatMap(({ event, data }) =>
      event === "tool_result" ? [data.call_id] : [],
    );
    expect([ids.length, new Set(ids).size, ids[0]]).toEqual([4, 4, "same"]);
    expect(Math.max(...ids.map(({ length }) => length))).toBeLessThan(50);
  });

  it("offers tools in 8 rounds, and then has one more without", async () => {
    let { asking, round } = await begin("loop");
    for (let rounds = 1; rounds <= 8; rounds++) {
      expect(round.request.tools).toHaveLength(3);
      round.call("list_tables", {});
      round.end();
      round = await model.round();
    }
    expect(round.request.tools).toEqual([]);
    round.call("list_tables", {});
    say(round);
    const events = await (await asking).rest();
    expect(events.filter(({ event }) => event === "tool_result")).toHaveLength(8);
    expect(events.at(-1)).toMatchObject({ event: "done" });
  });

  it("runs once per conversation, twice per person, and then answers 409 and 429 with Retry-After", async () => {
    const first = await begin();
    expect((await first.conversation.ask("b")).status).toBe(409);
    const second = await begin();
    const third = await createTestConversation(test);
    const refused = await third.ask("a");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "5"]);
    const ofAnother = await begin("a", "admin");
    for (const { round } of [first, second, ofAnother]) say(round);
    for (const { asking } of [first, second, ofAnother])
      expect((await (await asking).rest()).at(-1)?.event).toBe("done");
    const later = third.ask("a");
    say(await model.round());
    expect((await later).status).toBe(200);
    await (await later).rest();
  });

  it("cleans what a model writes: U+0000, and surrogate pairs in two pieces", async () => {
    const { conversation, asking, round } = await begin("emoji");
    for (const text of ["a\u0000", "\ud83d", "\ude80b\udc00"]) round.text(text);
    round.call("query_sql", { statement: "select '\u0000\ud800'" });
    round.end();
    say(await model.round(), "c");
    const text = textOfEvents(await (await asking).rest());
    expect(text).toBe("a\ufffd🚀b\ufffdc");
    const { items } = (await conversation.receipts()).file;
    expect(items.find(({ kind }) => kind === "answer")?.payload.text).toBe(text);
  });
});

describe("a turn that fails", () => {
  it("is a 502 before the first event of the model, and the event `error` afterwards", async () => {
    const { conversation, asking, round: failing } = await begin();
    failing.fail(new Problem("inference_failed", { detail: "The provider answered 500" }));
    expect((await asking).status).toBe(502);
    expect(await lastAnswer(conversation)).toEqual({ status: "failed", parts: [] });
    expect((await conversation.receipts()).kinds).toEqual(["user_message", "closing"]);

    const again = conversation.ask("b");
    const round = await model.round();
    round.text("Half an ans");
    round.fail(new Problem("inference_failed", { detail: "The provider ended the stream" }));
    const answer = await again;
    expect(answer.status).toBe(200);
    const events = await answer.rest();
    expectError(events, {
      code: "inference_failed",
      status: 502,
      detail: "The provider ended the stream",
    });
    expect(await lastAnswer(conversation)).toEqual({
      status: "failed",
      parts: [{ type: "text", text: "Half an ans" }],
    });
    const { file } = await conversation.receipts();
    expect(file.items.slice(-2).map(({ payload }) => payload)).toMatchObject([
      { text: "Half an ans" },
      { status: "failed", length: 5 },
    ]);
    expect(outcomes().slice(-2)).toEqual(["inference_failed", "inference_failed"]);
  });

  it("is a failure when the model says nothing", async () => {
    const { asking, round } = await begin();
    round.end();
    expect((await asking).status).toBe(502);
  });

  it("ends an answer over 256 K characters, and refuses queries after 2 MiB of results", async () => {
    const { asking, round: first } = await begin();
    sql.result = oneRow("x".repeat(1024 * 1024));
    for (let at = 0; at < 4; at++) first.call("query_sql", { statement: "select 1" });
    first.end();
    const second = await model.round();
    sql.result = oneRow(3);
    second.text("y".repeat(256 * 1024));
    second.text("z");
    const events = await (await asking).rest();
    const results = events.flatMap((event) =>
      event.event === "tool_result" ? [event.data.result] : [],
    );
    expect(results.map((result) => (result.kind === "error" ? result.code : result.kind))).toEqual([
      "rows",
      "rows",
      "results_too_large",
      "results_too_large",
    ]);
    expectError(events, { detail: "The model's answer is too long" });
  });

  it("ends after 60 s", async () => {
    const { conversation, asking, round } = await begin();
    round.text("slow");
    const answer = await asking;
    const rest = answer.rest();
    await test.clock.advance(59_000);
    expect(round.request.signal.aborted).toBe(false);
    await test.clock.advance(1_000);
    expect(round.request.signal.aborted).toBe(true);
    expectError(await rest, { detail: "The answer took longer than 60 s" });
    expect(await lastAnswer(conversation)).toMatchObject({ status: "failed" });
  });

  it("ends when the model calls tools without end, or with an input that is too large or too deep", async () => {
    const nested = JSON.parse(`{"statement":${"[".repeat(16_000)}${"]".repeat(16_000)}}`);
    for (const [inputs, detail] of [
      [Array(33).fill({}), "The model called too many tools at once"],
      [[{ statement: "x".repeat(40_000) }], "The model called a tool with too large an input"],
      [[nested], "The model called a tool with an input that nests too deeply"],
    ] as const) {
      const { conversation, asking, round } = await begin();
      round.text("x");
      for (const input of inputs) round.call("query_sql", input);
      round.end();
      expectError(await (await asking).rest(), { detail });
      expect((await conversation.receipts()).kinds).toEqual(["user_message", "answer", "closing"]);
    }
  });

  it("ends within two seconds when its person is suspended (A3)", async () => {
    const { conversation, asking, round } = await begin();
    round.text("So far");
    const rest = (await asking).rest();
    const suspend = (status: "suspended" | "active") =>
      test.db.update(person).set({ status }).where(eq(person.userId, test.people.auditor.userId));
    await test.clock.advance(2_000);
    await suspend("suspended");
    // The check before may still be in the database, and the next one is due two seconds after its end.
    await eventually(async () => {
      await test.clock.advance(2_000);
      expect(round.request.signal.aborted).toBe(true);
    });
    await suspend("active");
    expectError(await rest, { code: "forbidden" });
    expect(await lastAnswer(conversation)).toMatchObject({ status: "failed" });
  });

  it("starts the response after 3 s without an event, and sends a comment every 10 s", async () => {
    const conversation = await createTestConversation(test);
    const request = await messageRequest(conversation.path);
    let response: Response | undefined;
    const asking = test.fetch(request).then((arrived) => {
      response = arrived;
    });
    const round = await model.round();
    await test.clock.advance(2_999);
    expect(response).toBeUndefined();
    await test.clock.advance(1);
    await asking;
    const reader = response?.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toMatch(/^event: receipt\n/);
    const comment = reader?.read();
    await test.clock.advance(10_000);
    expect((await comment)?.value).toBe(": waiting\n\n");
    round.fail(new Problem("inference_failed"));
    let last = "";
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read())
      last = read.value;
    expect(last).toMatch(/^event: error\n/);
  });
});

describe("a client that disconnects", () => {
  it("aborts the model; the turn is closed as aborted with the text so far", async () => {
    const { conversation, asking, round } = await begin();
    round.text("So far");
    const answer = await asking;
    await answer.next();
    await answer.next();
    await answer.disconnect();
    const aborted = { status: "aborted", parts: [{ type: "text", text: "So far" }] };
    await eventually(async () => expect(await lastAnswer(conversation)).toEqual(aborted));
    expect(round.request.signal.aborted).toBe(true);
    const { kinds, file } = await conversation.receipts();
    expect(kinds).toEqual(["user_message", "answer", "closing"]);
    expect(file.items.at(-1)?.payload).toMatchObject({ status: "aborted", length: 3 });
    expect(outcomes().at(-1)).toBe("aborted");
  });

  it("cancels the running query, which is audited", async () => {
    Object.assign(sql, { result: null, signal: undefined });
    const { conversation, asking, round } = await begin();
    round.call("query_sql", { statement: "select 1" });
    round.end();
    const answer = await asking;
    await eventually(() => expect(sql.signal?.aborted).toBe(false));
    await answer.disconnect();
    await expectAborted(conversation);
    expect(sql.signal?.aborted).toBe(true);
    sql.result = oneRow(3);
    expect((await conversation.receipts()).kinds).toEqual(["user_message", "tool_call", "closing"]);
    expect(await auditOf(conversation)).toMatchObject([
      { outcome: "failure", reason_code: "aborted" },
    ]);
  });

  it("aborts the model before the response has begun", async () => {
    const conversation = await createTestConversation(test);
    const client = new AbortController();
    const asking = conversation.ask("a", { signal: client.signal });
    const round = await model.round();
    client.abort();
    await asking;
    expect(round.request.signal.aborted).toBe(true);
    await expectAborted(conversation);
    expect((await conversation.receipts()).kinds).toEqual(["user_message", "closing"]);
  });

  it("is one that reads nothing for 20 s", async () => {
    const conversation = await createTestConversation(test);
    const asking = test.fetch(await messageRequest(conversation.path));
    const round = await model.round();
    round.text("unread");
    await asking;
    await test.clock.advance(19_999);
    expect(round.request.signal.aborted).toBe(false);
    await test.clock.advance(1);
    expect(round.request.signal.aborted).toBe(true);
    await expectAborted(conversation);
  });

  it("may delete the conversation while it is answered", async () => {
    const { conversation, asking, round } = await begin();
    round.text("x");
    const answer = await asking;
    expect((await test.auditor.delete(conversation.path)).status).toBe(204);
    const rest = answer.rest();
    await test.clock.advance(2_000);
    expectError(await rest, { code: "conflict" });
    expect(round.request.signal.aborted).toBe(true);
  });
});

it("core aborts its answers when it shuts down", async () => {
  const { conversation, asking, round } = await begin();
  round.text("x");
  const answer = await asking;
  stopping.abort();
  expectError(await answer.rest(), { code: "shutting_down" });
  expect(await lastAnswer(conversation)).toMatchObject({ status: "aborted" });
  expect((await conversation.ask("b")).status).toBe(503);
});
