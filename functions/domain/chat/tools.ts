import * as v from "valibot";
import { type ToolName, type ToolResult, toolInputs } from "../../../proto/chat/tools.ts";
import type { ChatSql } from "../../chat-sql/chat-sql.ts";
import type { InferenceTool } from "../../inference/inference.ts";

const object = (properties: Readonly<Record<string, object>>) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/** The tools that are offered to the model. */
export const toolDefinitions: readonly InferenceTool[] = [
  {
    name: "list_tables",
    description: "Lists the tables that you may read, each with a description.",
    parameters: object({}),
  },
  {
    name: "describe_table",
    description:
      "Describes one table: its columns with types and units, and the rules that the columns follow.",
    parameters: object({
      name: { type: "string", description: "A name that list_tables returned" },
    }),
  },
  {
    name: "query_sql",
    description:
      "Runs one read-only PostgreSQL SELECT over these tables and returns at most 200 rows. Aggregate in SQL rather than reading many rows. " +
      "On an error, correct the statement and try again.",
    parameters: object({
      statement: { type: "string", description: "One SELECT, without a semicolon" },
    }),
  },
];

/** Runs a tool call. An input that does not fit is a result of kind `error`. Rejects when the signal aborts. */
export const runTool = async (
  sql: ChatSql,
  { name, input }: { name: ToolName; input: Record<string, unknown> },
  signal: AbortSignal,
): Promise<ToolResult> => {
  switch (name) {
    case "list_tables":
      return v.is(toolInputs.list_tables, input)
        ? { kind: "relations", relations: [...sql.relations()] }
        : toolError("invalid_input", "list_tables takes no input");
    case "describe_table":
      return v.is(toolInputs.describe_table, input)
        ? sql.describe(input.name)
        : toolError("invalid_input", "describe_table takes one name");
    case "query_sql":
      return v.is(toolInputs.query_sql, input)
        ? sql.query(input.statement, signal)
        : toolError("invalid_input", "query_sql takes one statement");
  }
};

/** Returns a result that reports an error to the model. */
export const toolError = (code: string, message: string): ToolResult => ({
  kind: "error",
  code,
  message,
});
