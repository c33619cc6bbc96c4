import * as v from "valibot";

/** The tools of the model: read-only SQL over a fixed set of relations (docs/chat.md). */
export const toolNames = ["list_tables", "describe_table", "query_sql"] as const;

/** The name of a tool. */
export const ToolName = v.picklist(toolNames);

/** The name of a tool. */
export type ToolName = v.InferOutput<typeof ToolName>;

/** Whether a text is the name of a tool. */
export const isToolName = (text: string): text is ToolName =>
  (toolNames as readonly string[]).includes(text);

/** The input of each tool. */
export const toolInputs = {
  list_tables: v.strictObject({}),
  describe_table: v.strictObject({ name: v.string() }),
  query_sql: v.strictObject({ statement: v.string() }),
} as const satisfies Record<ToolName, v.GenericSchema>;

/** The most rows of a query. */
export const rowsMax = 200;

/** The largest result of a query, in bytes of its JSON. */
export const resultBytesMax = 256 * 1024;

/** A relation that the model may read, with its description for people and model. */
export const RelationSummary = v.strictObject({ name: v.string(), description: v.string() });

/** A relation that the model may read. */
export type RelationSummary = v.InferOutput<typeof RelationSummary>;

/** A column; `unit` where a number has one, for example `seconds` or `bytes`. */
export const ColumnDescription = v.strictObject({
  name: v.string(),
  type: v.string(),
  unit: v.nullable(v.string()),
  description: v.string(),
});

/** A column. */
export type ColumnDescription = v.InferOutput<typeof ColumnDescription>;

/** The result of a tool, for the model, the page and the receipt. Values of rows are JSON: a bigint or numeric is a number or a string. */
export const ToolResult = v.variant("kind", [
  v.strictObject({ kind: v.literal("relations"), relations: v.array(RelationSummary) }),
  v.strictObject({
    kind: v.literal("relation"),
    ...RelationSummary.entries,
    columns: v.array(ColumnDescription),
    /** Rules beyond the columns, for example the precedence of the states. */
    notes: v.array(v.string()),
  }),
  v.strictObject({
    kind: v.literal("rows"),
    columns: v.array(v.strictObject({ name: v.string(), type: v.string() })),
    rows: v.array(v.array(v.unknown())),
    row_count: v.number(),
    /** Rows or bytes were cut off at a limit. */
    truncated: v.boolean(),
  }),
  v.strictObject({ kind: v.literal("error"), code: v.string(), message: v.string() }),
]);

/** The result of a tool. */
export type ToolResult = v.InferOutput<typeof ToolResult>;
