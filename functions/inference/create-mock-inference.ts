import type { ToolName, ToolResult } from "#proto/chat/session.ts";
import { filterToParams } from "#proto/fleet-health/filter.ts";
import { attentionStates } from "#proto/fleet-health/vocabulary.ts";
import type { Inference, InferenceMessage, InferencePart } from "./inference.ts";

/**
 * Creates a model that needs no provider and ignores the question: it calls each tool once, and answers with the hosts in each state. The
 * same fleet always gets the same answer.
 */
export const createMockInference = (model: string): Inference => ({
  provider: "mock",
  model,
  async *stream({ messages, tools, signal }) {
    for (const part of reply(messages, tools.length > 0)) {
      // Yields to the event loop between words, so that a signal can abort an answer.
      await Promise.resolve();
      signal.throwIfAborted();
      yield part;
    }
  },
});

const script: readonly { name: ToolName; input: Record<string, unknown> }[] = [
  { name: "list_tables", input: {} },
  { name: "describe_table", input: { name: "collectors" } },
  {
    name: "query_sql",
    input: {
      statement:
        "select state, count(*) as hosts from collectors group by state order by hosts desc, state",
    },
  },
];

const reply = (messages: readonly InferenceMessage[], toolsOffered: boolean): InferencePart[] => {
  const start = messages.findLastIndex(({ role }) => role === "user");
  const results = messages
    .slice(start + 1)
    .flatMap((message) => (message.role === "tool" ? message.results : []));
  const last = results.at(-1)?.result;
  if (last?.kind === "error")
    return words(`I cannot answer this: the query failed (${last.code}). ${last.message}`);
  const step = script[results.length];
  if (step === undefined) return words(answerOf(last));
  if (!toolsOffered)
    return words(
      "I cannot answer this: it needs the fleet's data, and the SQL tools are not available now.",
    );
  const call = {
    type: "tool_call",
    callId: `call_${start + 1}_${results.length + 1}`,
    ...step,
  } as const;
  return results.length === 0 ? [...words("I query the fleet's tables.\n"), call] : [call];
};

const answerOf = (result: ToolResult | undefined) => {
  const rows =
    result?.kind === "rows"
      ? result.rows.map(([state, hosts]) => ({ state, hosts: Number(hosts) }))
      : [];
  const sum = (counted: typeof rows) => counted.reduce((total, { hosts }) => total + hosts, 0);
  const trouble = rows.filter(({ state }) => attentionStates.some((each) => each === state));
  return [
    `${sum(trouble)} hosts of ${sum(rows)} need attention by their state:`,
    ...rows.map(({ state, hosts }) => `- ${state}: ${hosts} ${hosts === 1 ? "host" : "hosts"}`),
    `All that need it: /fleet?${filterToParams({ states: attentionStates })}`,
    "I am the built-in mock, not a language model: this is my answer to every question.",
  ].join("\n");
};

/** Splits a text into its words, each with the white space after it. */
const words = (text: string): InferencePart[] =>
  (text.match(/\S+\s*/g) ?? []).map((word) => ({ type: "text", text: word }));
