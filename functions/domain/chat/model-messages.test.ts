import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InferenceMessage } from "#functions/inference/inference.ts";
import type { ChatMessageRow } from "#functions/store/chat/sessions.ts";
import type { MessagePart, ToolResult } from "#proto/chat/session.ts";
import { currentMessages, historyOf } from "./model-messages.ts";

const message = (
  position: number,
  role: "user" | "assistant",
  parts: MessagePart[],
): ChatMessageRow => ({
  id: String(position),
  sessionId: "s",
  position,
  role,
  status: "complete",
  createdAt: new Date(0),
  parts,
  provider: null,
  model: null,
  tail: "",
});
const question = (at: number, text: string) =>
  message(2 * at + 1, "user", [{ type: "text", text }]);
const answer = (at: number, parts: MessagePart[]) => message(2 * at + 2, "assistant", parts);
const rows = (count: number, bytes: number): ToolResult => ({
  kind: "rows",
  columns: [{ name: "host", type: "text" }],
  rows: Array.from({ length: count }, () => ["x".repeat(bytes)]),
  row_count: count,
  truncated: false,
});
const call = (id: string): MessagePart => ({
  type: "tool_call",
  call_id: id,
  name: "query_sql",
  input: { statement: "q" },
});
const resultOf = (id: string, result: ToolResult): MessagePart => ({
  type: "tool_result",
  call_id: id,
  name: "query_sql",
  result,
});
const bytesOf = (value: unknown) => JSON.stringify(value).length;
const resultsOf = (messages: readonly InferenceMessage[]) =>
  messages.flatMap((each) => (each.role === "tool" ? each.results : []));

describe("the history of a conversation", () => {
  it("keeps the newest whole turns, and leaves out turns without an answer", () => {
    const turns = Array.from({ length: 10 }, (_, at) => [
      question(at, `question ${at}`),
      answer(at, at === 8 ? [] : [{ type: "text", text: "y".repeat(50 * 1024) }]),
    ]).flat();
    const history = historyOf(turns);
    expect(
      history
        .filter(({ role }) => role === "user")
        .map((each) => ("text" in each ? each.text : "")),
    ).toEqual(["question 6", "question 7", "question 9"]);
    expect(bytesOf(history)).toBeLessThan(192 * 1024);
  });

  it("shortens large results of earlier turns, and says that they are cut", () => {
    const [result] = resultsOf(
      historyOf([
        question(0, "q"),
        answer(0, [call("a"), resultOf("a", rows(200, 100)), { type: "text", text: "t" }]),
      ]),
    );
    expect(result?.result).toMatchObject({ kind: "rows", row_count: 200, truncated: true });
    expect(bytesOf(result)).toBeLessThan(5 * 1024);
  });
});

describe("the answer that is being written", () => {
  it("gives the model its results in full up to 384 KiB, then shortened", () => {
    const parts = ["a", "b", "c"].flatMap((id) => [call(id), resultOf(id, rows(200, 800))]);
    const results = resultsOf(currentMessages(parts));
    expect(
      results.map(({ result }) => result.kind === "rows" && result.rows.length === 200),
    ).toEqual([true, true, false]);
  });

  it("always has the result of each tool call in the next message", () => {
    // As the turn loop writes them: text, calls, then results of some of the calls.
    const round = fc.tuple(fc.boolean(), fc.nat(3), fc.nat(3));
    fc.assert(
      fc.property(fc.array(round, { maxLength: 4 }), (rounds) => {
        const parts = rounds.flatMap(([hasText, calls, answered], at): MessagePart[] => [
          ...(hasText ? [{ type: "text" as const, text: "t" }] : []),
          ...Array.from({ length: calls }, (_, index) => call(`${at}.${index}`)),
          ...Array.from({ length: Math.min(calls, answered) }, (_, index) =>
            resultOf(`${at}.${index}`, rows(1, 1)),
          ),
        ]);
        const messages = currentMessages(parts);
        for (const [at, each] of messages.entries()) {
          if (each.role !== "assistant") continue;
          const called = each.parts.flatMap((piece) =>
            piece.type === "tool_call" ? [piece.callId] : [],
          );
          const next = messages[at + 1];
          const given = next?.role === "tool" ? next.results.map(({ callId }) => callId) : [];
          expect(given).toEqual(called);
        }
      }),
    );
  });
});
