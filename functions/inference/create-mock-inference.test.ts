import { describe, expect, it } from "vitest";
import type { ToolResult } from "../../proto/chat/tools.ts";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createSeededEntropy } from "../../tests/fakes/entropy.ts";
import { createTestLog } from "../../tests/fakes/log.ts";
import { createInference } from "./create-inference.ts";
import type { InferenceMessage, InferencePart, InferenceTool } from "./inference.ts";

const tools: InferenceTool[] = [
  { name: "list_tables", description: "", parameters: { type: "object" } },
  { name: "query_sql", description: "", parameters: { type: "object" } },
];

/** Runs a turn: every round's tool calls are answered by `run`. Returns the statements and the answer. */
const ask = async (question: string, run: (statement: string) => ToolResult, offered = tools) => {
  const model = await createInference(
    { provider: "mock", model: "mock" },
    { clock: createTestClock(), entropy: createSeededEntropy(), log: createTestLog() },
  );
  const messages: InferenceMessage[] = [{ role: "user", text: question }];
  const statements: string[] = [];
  for (let round = 0; round < 8; round++) {
    const parts: InferencePart[] = [];
    const signal = new AbortController().signal;
    for await (const part of model.stream({ system: "", messages, tools: offered, signal })) parts.push(part);
    const calls = parts.flatMap((part) => (part.type === "tool_call" ? [part] : []));
    if (calls.length === 0)
      return { statements, parts, answer: parts.map((part) => (part.type === "text" ? part.text : "")).join("") };
    statements.push(...calls.map(({ input }) => String(input.statement ?? "")));
    messages.push({ role: "assistant", parts });
    const results = calls.map(({ callId, name, input }) => ({ callId, name, result: run(String(input.statement)) }));
    messages.push({ role: "tool", results });
  }
  throw new Error("the model did not answer within 8 rounds");
};

const rows = (columns: string[], values: unknown[][]): ToolResult => ({
  kind: "rows",
  columns: columns.map((name) => ({ name, type: "text" })),
  rows: values,
  row_count: values.length,
  truncated: false,
});

describe("createMockInference", () => {
  it("queries the fleet, and answers with the rows of the result", async () => {
    const { statements, answer } = await ask("Which hosts need attention?", () =>
      rows(["state", "hosts"], [["stale", 3]]),
    );
    expect(statements).toHaveLength(1);
    expect(answer).toContain("3");
    expect(answer).toContain("/fleet?state=stale");
  });

  it("streams an answer word by word", async () => {
    const { parts } = await ask("Which hosts need attention?", () => rows(["state", "hosts"], [["stale", 3]]));
    expect(parts.length).toBeGreaterThan(5);
  });

  it("lists the tables when it does not understand the question", async () => {
    const { answer } = await ask("What is the meaning of life?", () => ({
      kind: "relations",
      relations: [{ name: "collectors", description: "Hosts" }],
    }));
    expect(answer).toContain("do not understand");
    expect(answer).toContain("collectors");
  });

  it("reports that a query failed", async () => {
    const { answer } = await ask("Which hosts need attention?", () => ({
      kind: "error",
      code: "timeout",
      message: "The query took longer than 5 s.",
    }));
    expect(answer).toContain("timeout");
  });

  it("reports that it has no tools", async () => {
    const { answer } = await ask("Which hosts need attention?", () => rows([], []), []);
    expect(answer).toContain("not offered");
  });
});
