import type { MockQuestion } from "./question.ts";
import type { Period } from "./sql.ts";

/** A row of a query, by column. */
export type Row = Readonly<Record<string, unknown>>;

/** The rows of a query. */
export type AnswerRows = readonly Row[];

/** The rows of a query that has none. */
export const none: AnswerRows = [];

/** A day, the period of most questions that name none. */
export const daySeconds = 86_400;

/** Returns the period of a question: since a time, or the last seconds. */
export const periodOf = ({ since, periodSeconds }: MockQuestion): Period => ({
  since,
  seconds: periodSeconds ?? daySeconds,
});

/** A question that the mock understands. */
export interface Topic {
  /** A question of this topic, in the words of an operator. */
  example: string;
  /** What the model says before its first tool call. */
  intent: string;
  matches(question: MockQuestion): boolean;
  /**
   * Returns the statements of the next round, by the results of all statements so far; none when these suffice for the answer. Values in
   * a statement come from the person's question, and ids from results.
   */
  next(question: MockQuestion, results: readonly AnswerRows[]): readonly string[];
  /** Returns the answer: plain text, links as local paths. */
  answer(question: MockQuestion, results: readonly AnswerRows[]): string;
}

/** Returns the `next` of a topic with one round of statements. */
export const once =
  (statements: (question: MockQuestion) => readonly string[]): Topic["next"] =>
  (question, results) =>
    results.length > 0 ? [] : statements(question);

/** AnswerRows that an answer lists unless the question names a number. */
export const listed = ({ top }: MockQuestion): number => Math.min(50, Math.max(1, top ?? 10));
