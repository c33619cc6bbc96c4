import { expect, it } from "vitest";
import { type ToolResult, toolNames } from "#proto/chat/session.ts";
import { attentionStates } from "#proto/fleet-health/vocabulary.ts";
import { createMockInference } from "./create-mock-inference.ts";
import type { InferenceMessage, InferencePart } from "./inference.ts";

const tools = toolNames.map((name) => ({ name, description: "", parameters: { type: "object" } }));
const counts: ToolResult = {
  kind: "rows",
  columns: ["state", "hosts"].map((name) => ({ name, type: "text" })),
  // A bigint arrives as a text.
  rows: [
    ["healthy", "7"],
    ["stale", "2"],
    ["cert_expiring", 1],
    ["revoked", 1],
  ],
  row_count: 4,
  truncated: false,
};
const model = createMockInference("mock");

/** Runs a turn: `result` answers every tool call. */
const ask = async (
  question: string,
  result: ToolResult = counts,
  { offered = tools, before = [] as InferenceMessage[] } = {},
) => {
  const messages: InferenceMessage[] = [...before, { role: "user", text: question }];
  const called: Extract<InferencePart, { type: "tool_call" }>[] = [];
  for (;;) {
    const parts: InferencePart[] = [];
    const signal = new AbortController().signal;
    for await (const part of model.stream({ system: "", messages, tools: offered, signal }))
      parts.push(part);
    const calls = parts.filter((part) => part.type === "tool_call");
    if (calls.length === 0)
      return {
        called,
        messages,
        answer: parts.map((part) => (part.type === "text" ? part.text : "")).join(""),
      };
    called.push(...calls);
    messages.push({ role: "assistant", parts });
    messages.push({
      role: "tool",
      results: calls.map(({ callId, name }) => ({ callId, name, result })),
    });
  }
};

it("calls each tool once, and answers with the hosts in each state and a link", async () => {
  const { called, answer } = await ask("Hello");
  expect(called.map(({ name }) => name)).toEqual(toolNames);
  expect(answer.split("\n").slice(0, -1)).toEqual([
    // Nobody needs to look at a host that was revoked on purpose.
    "3 hosts of 11 need attention by their state:",
    "- healthy: 7 hosts",
    "- stale: 2 hosts",
    "- cert_expiring: 1 host",
    "- revoked: 1 host",
    `All that need it: /fleet?${attentionStates.map((state) => `state=${state}`).join("&")}`,
  ]);
});

it("answers the last question of a conversation, with call ids of its own", async () => {
  const first = await ask("Hello");
  const second = await ask("And now?", counts, { before: first.messages });
  expect(second.answer).toBe(first.answer);
  const ids = [...first.called, ...second.called].map(({ callId }) => callId);
  expect(new Set(ids).size).toBe(2 * toolNames.length);
});

it("reports that a query failed, with the reason", async () => {
  const { answer } = await ask("Hello", {
    kind: "error",
    code: "statement_timeout",
    message: "Too long.",
  });
  expect(answer).toBe("I cannot answer this: the query failed (statement_timeout). Too long.");
});

it("reports that the tools are off, and invents nothing", async () => {
  const { called, answer } = await ask("Hello", counts, { offered: [] });
  expect(called).toEqual([]);
  expect(answer).toContain("not available");
});

it("throws the reason of its signal", async () => {
  const abort = new AbortController();
  const messages: InferenceMessage[] = [{ role: "user", text: "hello" }];
  const round = model
    .stream({ system: "", messages, tools: [], signal: abort.signal })
    [Symbol.asyncIterator]();
  await round.next();
  abort.abort(new Error("stopped by the person"));
  await expect(round.next()).rejects.toThrow("stopped by the person");
});
