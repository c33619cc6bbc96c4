import type { RelationSummary, ToolName, ToolResult } from "../../proto/chat/tools.ts";
import type { Inference, InferenceMessage, InferencePart } from "./inference.ts";
import { type Row, shown } from "./mock/answer-words.ts";
import { readQuestion } from "./mock/question.ts";
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
  const failed = results.map(({ result }) => result).find((result) => result.kind === "error");
  if (failed)
    return words(`I cannot answer this: the query failed (${shown(failed.code)}). ${shown(failed.message, 500)}`);

  const call = (index: number, name: ToolName, input: Record<string, unknown>): InferencePart => ({
    type: "tool_call",
    callId: `call_${start + 1}_${results.length + index + 1}`,
    name,
    input,
  });
  const topic = topics.find(({ matches }) => matches(question));
  if (topic === undefined) {
    const [first] = results;
    if (first === undefined && toolsOffered) return [call(0, "list_tables", {})];
    return words(unknownQuestion(first?.result.kind === "relations" ? first.result.relations : []));
  }
  if (results.length > 0)
    return words(
      topic
        .answer(
          question,
          results.map(({ result }) => rowsOf(result)),
        )
        .join("\n"),
    );
  if (!toolsOffered)
    return words("I cannot answer this: it needs the fleet's data, and the SQL tools are not available now.");
  const calls = topic.statements(question).map((statement, index) => call(index, "query_sql", { statement }));
  return [...words("I query the fleet's tables.\n"), ...calls];
};

const rowsOf = (result: ToolResult): Row[] =>
  result.kind === "rows"
    ? result.rows.map((row) => Object.fromEntries(result.columns.map(({ name }, at) => [name, row[at]])))
    : [];

const unknownQuestion = (relations: readonly RelationSummary[]): string =>
  [
    "I am the built-in mock, not a language model, and do not understand this question. Ask for example:",
    ...topics.map(({ example }) => `- ${example}`),
    ...(relations.length > 0 ? ["The tables that I can read:"] : []),
    ...relations.map(({ name, description }) => `- ${name}: ${description}`),
  ].join("\n");

/** Splits a text into its words, each with the white space after it. */
const words = (text: string): InferencePart[] =>
  (text.match(/\S+\s*/g) ?? []).map((word) => ({ type: "text", text: word }));
