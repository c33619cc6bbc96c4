import { afterAll, describe, expect, it } from "vitest";
import { createTestCore } from "../../../../tests/core.ts";

const test = await createTestCore();
afterAll(() => test.close());

describe("a question", () => {
  it("is answered as a stream of events that ends with `done`, and has receipts", async () => {
    const { body } = await test.api<{ id: string }>("POST", "/v1/chat/sessions", { as: "auditor" });
    const path = `/v1/chat/sessions/${body.id}`;
    const answer = await test.api<string>("POST", `${path}/messages`, { as: "auditor", body: { content: "Hello" } });
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
    expect(answer.body).toMatch(/^event: receipt\n[\s\S]*event: done\ndata: [^\n]*"status":"complete"}\n\n$/);
    const { body: receipts } = await test.api<{ items: { kind: string }[] }>("GET", `${path}/receipts`, {
      as: "auditor",
    });
    expect(receipts.items.map(({ kind }) => kind)).toEqual(["user_message", "answer", "closing"]);
  });
});
