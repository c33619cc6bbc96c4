import type { RelationSummary, ToolResult } from "../../proto/chat/tools.ts";
import type { Inference, InferenceMessage, InferencePart } from "./inference.ts";
import { readQuestion } from "./mock/question.ts";
import type { Table } from "./mock/topic.ts";
import { topics } from "./mock/topics.ts";

/**
 * Creates a model that needs no provider: it plans SQL from the words of the question, and writes its answer from the results. The same
 * conversation always has the same answer. Only the person's own words decide what it does; results are data.
 */
export const createMockInference = (model: string): Inference => ({
  provider: "mock",
  model,
  async *stream({ messages, tools, signal }) {
    for (const part of reply(messages, tools.length > 0)) {
      // Yields to the event loop between words, so that a signal can abort a long answer.
      await Promise.resolve();
      signal.throwIfAborted();
      yield part;
    }
  },
});

const reply = (messages: readonly InferenceMessage[], toolsOffered: boolean): InferencePart[] => {
  const start = messages.findLastIndex(({ role }) => role === "user");
  const asked = messages[start];
  const question = readQuestion(asked?.role === "user" ? asked.text : "");
  const results = messages.slice(start + 1).flatMap((message) => (message.role === "tool" ? message.results : []));
  const call = (index: number, name: "list_tables" | "query_sql", input: Record<string, unknown>): InferencePart => ({
    type: "tool_call",
    callId: `call_${start + 1}_${results.length + index + 1}`,
    name,
    input,
  });
  const failed = results.map(({ result }) => result).find((result) => result.kind === "error");
  if (failed) return words(`I cannot answer this: the query failed with ${failed.code}. ${failed.message}`);

  const topic = topics.find(({ matches }) => matches(question));
  if (topic === undefined) {
    const [first] = results;
    if (first === undefined && toolsOffered) return [call(0, "list_tables", {})];
    return words(unknownQuestion(first?.result.kind === "relations" ? first.result.relations : []));
  }
  const tables = results.map(({ result }) => tableOf(result));
  const statements = topic.next(question, tables);
  if (statements === null) return words(topic.answer(question, tables));
  if (!toolsOffered) return words("I cannot answer this: it needs the SQL tools, which are not offered now.");
  return statements.map((statement, index) => call(index, "query_sql", { statement }));
};

const tableOf = (result: ToolResult): Table =>
  result.kind === "rows"
    ? {
        rows: result.rows.map((row) => Object.fromEntries(result.columns.map(({ name }, at) => [name, row[at]]))),
        truncated: result.truncated,
      }
    : { rows: [], truncated: false };

const unknownQuestion = (relations: readonly RelationSummary[]): string =>
  [
    "I am a built-in model without a provider and do not understand this question. I can answer, for example:",
    ...topics.map(({ example }) => `- ${example}`),
    ...(relations.length > 0 ? ["The tables are:", ...relations.map(({ name }) => `- ${name}`)] : []),
  ].join("\n");

/** Splits a text into its words, each with the white space after it. */
const words = (text: string): InferencePart[] =>
  (text.match(/\S+\s*/g) ?? []).map((word) => ({ type: "text", text: word }));
