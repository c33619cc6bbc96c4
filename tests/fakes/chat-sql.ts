import type { ChatSql } from "#functions/chat-sql/create-chat-sql.ts";
import type { ToolResult } from "#proto/chat/session.ts";

/** SQL tools whose results a test chooses. */
export interface FakeChatSql extends ChatSql {
  /** The statements that were run. */
  statements: string[];
  /** The signal of the newest query. */
  signal: AbortSignal | undefined;
  /** What queries return; null: they run until they are aborted. */
  result: ToolResult | null;
}

/** Returns a result with one row of one number. */
export const oneRow = (value: unknown): ToolResult => ({
  kind: "rows",
  columns: [{ name: "count", type: "bigint" }],
  rows: [[value]],
  row_count: 1,
  truncated: false,
});

/** Creates SQL tools with one relation. */
export const createFakeChatSql = (): FakeChatSql => {
  const fake: FakeChatSql = {
    statements: [],
    signal: undefined,
    result: oneRow(3),
    relations: () => [{ name: "collectors", description: "The hosts" }],
    describe: (name) => ({
      kind: "error",
      code: "unknown_relation",
      message: `There is no relation ${name}`,
    }),
    query: (statement, signal) => {
      fake.statements.push(statement);
      fake.signal = signal;
      const { result } = fake;
      if (result !== null) return Promise.resolve(result);
      return new Promise((_, reject) => {
        if (signal.aborted) reject(signal.reason);
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    },
    close: async () => undefined,
  };
  return fake;
};
