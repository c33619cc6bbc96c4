import type { Question } from "./question.ts";

/** A row of a query, by column. */
export type Row = Readonly<Record<string, unknown>>;

/** Rows of a query; `truncated` when a limit cut them off. */
export interface Table {
  rows: readonly Row[];
  truncated: boolean;
}

/** A question that the mock understands. */
export interface Topic {
  /** A question of this topic, in the words of an operator. */
  example: string;
  matches(question: Question): boolean;
  /** Returns the statements to run next, or null when `tables`, the results so far, suffice for the answer. */
  next(question: Question, tables: readonly Table[]): readonly string[] | null;
  /** Returns the answer: plain text, links as local paths. */
  answer(question: Question, tables: readonly Table[]): string;
}
