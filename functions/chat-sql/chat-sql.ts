import type { RelationSummary, ToolResult } from "#proto/chat/tools.ts";

/** The SQL tools of the chat agent: a fixed set of relations, read by a login role that can read nothing else. */
export interface ChatSql {
  relations(): readonly RelationSummary[];
  /** Returns the columns, units and rules of a relation; a result of kind `error` for an unknown name. */
  describe(name: string): ToolResult;
  /**
   * Runs one SELECT and returns its rows. A refused or failed statement is a result of kind `error`, for the model to correct; its message
   * names the rule and holds nothing from outside the relations. Rejects with the signal's reason when aborted, after cancelling the query.
   */
  query(statement: string, signal: AbortSignal): Promise<ToolResult>;
  close(): Promise<void>;
}
