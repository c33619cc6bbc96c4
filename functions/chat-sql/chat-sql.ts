import type { RelationSummary, ToolResult } from "#proto/chat/session.ts";

/** The SQL tools of the chat agent: a fixed set of relations, read by a login role that can read nothing else. */
export interface ChatSql {
  relations(): readonly RelationSummary[];
  /** Returns the columns, units and rules of a relation; a result of kind `error` for an unknown name. */
  describe(name: string): ToolResult;
  /**
   * Runs one SELECT and returns its rows. Returns a result of kind `error` for a rejected or failed statement, for the model to correct; its
   * message names the rule, and has no data from outside the relations. On abort, cancels the query and rejects with the signal's reason.
   */
  query(statement: string, signal: AbortSignal): Promise<ToolResult>;
  close(): Promise<void>;
}
