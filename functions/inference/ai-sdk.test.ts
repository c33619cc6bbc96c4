import { afterEach, describe, expect, it, vi } from "vitest";
import { Secret } from "../../kit/secret.ts";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createSeededEntropy } from "../../tests/fakes/entropy.ts";
import { createTestLog } from "../../tests/fakes/log.ts";
import { type ModelProvider, type ScriptedReply, startModelProvider } from "../../tests/fakes/model-provider.ts";
import type { InferenceConfig } from "../chat-config.ts";
import { Problem } from "../problems.ts";
import { createInference } from "./create-inference.ts";
import type { InferenceMessage, InferencePart, InferenceRequest } from "./inference.ts";

const providers: ModelProvider[] = [];
afterEach(() => Promise.all(providers.splice(0).map((provider) => provider.close())));

const prompt = "which hosts are stale, prompt-7d1f";

/** A model of a scripted provider. `start` begins a round; its `parts` grow as they arrive. */
const setUp = async (name: Exclude<InferenceConfig["provider"], "mock">, script: readonly ScriptedReply[]) => {
  const provider = await startModelProvider(name === "anthropic" ? "anthropic" : "openai", script);
  providers.push(provider);
  const clock = createTestClock();
  const log = createTestLog();
  const config: InferenceConfig = {
    provider: name,
    model: "fake-model",
    apiKey: new Secret(provider.key),
    baseUrl: provider.baseUrl,
  };
  const model = await createInference(config, { clock, entropy: createSeededEntropy(), log });
  const start = (changes: Partial<InferenceRequest> = {}) => {
    const parts: InferencePart[] = [];
    const request: InferenceRequest = {
      system: "You answer briefly.",
      messages: [{ role: "user", text: prompt }],
      tools: [
        {
          name: "query_sql",
          description: "Runs one SELECT.",
          parameters: { type: "object", properties: { statement: { type: "string" } }, required: ["statement"] },
        },
      ],
      signal: new AbortController().signal,
      ...changes,
    };
    const ended = (async () => {
      for await (const part of model.stream(request)) parts.push(part);
    })();
    ended.catch(() => undefined);
    return { parts, ended };
  };
  return { provider, clock, log, model, start };
};

const textOf = (parts: readonly InferencePart[]): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("");

/** Returns the `inference_failed` that a round ended with, after checking that neither it nor the log holds a secret. */
const failureOf = async (ended: Promise<void>, log: ReturnType<typeof createTestLog>): Promise<Problem> => {
  const problem = await ended.then(
    () => expect.unreachable("the round succeeded"),
    (error: unknown) => error,
  );
  if (!(problem instanceof Problem)) throw problem;
  expect(problem.code).toBe("inference_failed");
  log.error({ err: problem, cause: problem.cause }, "failed");
  expect(log.text()).not.toMatch(/c0ffee|prompt-7d1f|secret-in-body|scripted/);
  return problem;
};

const causeOf = (problem: Problem): string => (problem.cause as Error).message;

describe.each(["openai", "openai-compatible", "litellm", "anthropic"] as const)("the provider %s", (name) => {
  it("streams text in fragments", async () => {
    const { start, provider } = await setUp(name, [
      { answer: [{ text: "Drei Höste stehen still 🛑, größtenteils." }] },
    ]);
    const { parts, ended } = start();
    await ended;
    expect(textOf(parts)).toBe("Drei Höste stehen still 🛑, größtenteils.");
    expect(parts.length).toBeGreaterThan(3);
    expect(provider.requests).toHaveLength(1);
  });

  it("yields text and two tool calls of one round, assembled from fragments", async () => {
    const statement = 'select \'größe\' as "x\\"", count(*) from collectors';
    const { start } = await setUp(name, [
      {
        answer: [
          { text: "I look." },
          { id: "call_1", tool: "query_sql", json: JSON.stringify({ statement }) },
          { id: "call_2", tool: "query_sql", json: '{"statement":"select 1"}' },
        ],
      },
    ]);
    const { parts, ended } = start();
    await ended;
    expect(textOf(parts)).toBe("I look.");
    expect(parts.filter((part) => part.type === "tool_call")).toEqual([
      { type: "tool_call", callId: "call_1", name: "query_sql", input: { statement } },
      { type: "tool_call", callId: "call_2", name: "query_sql", input: { statement: "select 1" } },
    ]);
  });

  it("sends the conversation with its tool calls and results, and the key in a header only", async () => {
    const { start, provider } = await setUp(name, [{ answer: [{ text: "ok" }] }]);
    const messages: InferenceMessage[] = [
      { role: "user", text: "first" },
      {
        role: "assistant",
        parts: [
          { type: "text", text: "" },
          { type: "tool_call", callId: "call_1", name: "query_sql", input: { statement: "select 1" } },
        ],
      },
      {
        role: "tool",
        results: [
          { callId: "call_1", name: "query_sql", result: { kind: "error", code: "refused", message: "not allowed" } },
        ],
      },
      { role: "assistant", parts: [{ type: "text", text: "I could not." }] },
      { role: "user", text: "second" },
    ];
    await start({ messages, tools: [] }).ended;
    const [request] = provider.requests;
    const body = JSON.stringify(request?.body);
    for (const text of ["You answer briefly.", "first", "select 1", "not allowed", "I could not.", "second"])
      expect(body).toContain(text);
    expect(body).not.toContain(provider.key);
    expect(request?.path).not.toContain(provider.key);
    expect(request?.body.model).toBe("fake-model");
    // No round is left, so the model may not call the tools that the conversation has used.
    expect(JSON.stringify(request?.body.tool_choice)).toContain("none");
  });

  it("T3: takes the base URL from its configuration alone", async () => {
    const elsewhere = await setUp(name, [{ answer: [{ text: "stolen" }] }]);
    const { baseUrl } = elsewhere.provider;
    vi.stubEnv("OPENAI_BASE_URL", baseUrl);
    vi.stubEnv("ANTHROPIC_BASE_URL", baseUrl);
    const { start, provider } = await setUp(name, [{ answer: [{ text: "ok" }] }]);
    await start({ system: `base_url: ${baseUrl}`, messages: [{ role: "user", text: `Use ${baseUrl}` }] }).ended;
    vi.unstubAllEnvs();
    expect(provider.requests).toHaveLength(1);
    expect(elsewhere.provider.requests).toHaveLength(0);
  });

  it("yields a tool call whose input is no JSON object with an empty input", async () => {
    for (const json of ['{"statement": "sel', "[1]", '"text"']) {
      const { start } = await setUp(name, [{ answer: [{ id: "call_1", tool: "query_sql", json }] }]);
      const { parts, ended } = start();
      await ended;
      expect(parts).toEqual([{ type: "tool_call", callId: "call_1", name: "query_sql", input: {} }]);
    }
  });

  it("fails when the model calls an unknown tool", async () => {
    const { start, log } = await setUp(name, [{ answer: [{ id: "call_1", tool: "drop_table", json: "{}" }] }]);
    expect(causeOf(await failureOf(start().ended, log))).toContain("unknown tool");
  });

  it.each([429, 500, 503, 529])("retries HTTP %i after the seconds of Retry-After", async (status) => {
    const { start, clock, log, provider } = await setUp(name, [
      { status, headers: { "Retry-After": "7" } },
      { answer: [{ text: "late" }] },
    ]);
    const { parts, ended } = start();
    await vi.waitFor(() => expect(log.lines).toHaveLength(1));
    await clock.advance(6_999);
    expect(provider.requests).toHaveLength(1);
    await clock.advance(1);
    await ended;
    expect(textOf(parts)).toBe("late");
    expect(log.text()).toContain(String(status));
  });

  it("retries after the date of Retry-After, and backs off without one", async () => {
    const { start, clock, log, provider } = await setUp(name, [
      { status: 429, headers: { "Retry-After": "Mon, 01 Jun 2026 12:00:04 GMT" } },
      { status: 502 },
      { answer: [{ text: "late" }] },
    ]);
    const { ended } = start();
    await vi.waitFor(() => expect(log.lines).toHaveLength(1));
    await clock.advance(3_999);
    expect(provider.requests).toHaveLength(1);
    await clock.advance(1);
    await vi.waitFor(() => expect(log.lines).toHaveLength(2));
    await clock.advance(2_000);
    await ended;
    expect(provider.requests).toHaveLength(3);
  });

  it("does not wait for the end of a failed response's body", async () => {
    const { start, log, provider } = await setUp(name, [{ status: 400, endless: true }]);
    await failureOf(start().ended, log);
    await vi.waitFor(() => expect(provider.open()).toBe(0));
  });

  it("fails at once when Retry-After is longer than a turn can wait, and passes it on", async () => {
    const { start, log, provider } = await setUp(name, [{ status: 429, headers: { "Retry-After": "3600" } }]);
    const problem = await failureOf(start().ended, log);
    expect(problem.options.retryAfterSeconds).toBe(3600);
    expect(provider.requests).toHaveLength(1);
  });

  it("gives up after five attempts", async () => {
    const { start, clock, log, provider } = await setUp(name, [{ status: 503, headers: { "Retry-After": "1" } }]);
    const { ended } = start();
    for (let attempt = 1; attempt < 5; attempt++) {
      await vi.waitFor(() => expect(log.lines).toHaveLength(attempt));
      await clock.advance(1_000);
    }
    expect(causeOf(await failureOf(ended, log))).toContain("503");
    expect(provider.requests).toHaveLength(5);
  });

  it.each([400, 401, 403, 404])("does not retry HTTP %i", async (status) => {
    const { start, log, provider } = await setUp(name, [{ status, body: '{"error":{"message":"secret-in-body"}}' }]);
    expect(causeOf(await failureOf(start().ended, log))).toContain(String(status));
    expect(provider.requests).toHaveLength(1);
  });

  it("rejects a wrong key without logging what the provider quotes", async () => {
    const { start, log, provider } = await setUp(name, [
      { status: 401, body: `{"error":{"message":"Incorrect API key provided: sk-test-c0ffee"}}` },
    ]);
    await failureOf(start().ended, log);
    expect(provider.requests).toHaveLength(1);
  });

  it.each([301, 302, 303, 307, 308])("T3: follows no redirect (HTTP %i)", async (status) => {
    const elsewhere = await setUp(name, [{ answer: [{ text: "stolen" }] }]);
    const { start, log } = await setUp(name, [
      { status, headers: { Location: `${elsewhere.provider.baseUrl}/chat/completions` } },
    ]);
    expect(causeOf(await failureOf(start().ended, log))).toContain("redirected");
    expect(elsewhere.provider.requests).toHaveLength(0);
  });

  it("fails when the provider sends no status for 20 s", async () => {
    const { start, clock, log, provider } = await setUp(name, [{ silent: true }]);
    const { ended } = start();
    await vi.waitFor(() => expect(provider.requests).toHaveLength(1));
    await clock.advance(20_000);
    expect(causeOf(await failureOf(ended, log))).toContain("silent");
    await vi.waitFor(() => expect(provider.open()).toBe(0));
  });

  it("fails when a stream is silent for 20 s, and keeps what it yielded", async () => {
    const { start, clock, log, provider } = await setUp(name, [{ stallAfter: [{ text: "half an answer" }] }]);
    const { parts, ended } = start();
    await vi.waitFor(() => expect(textOf(parts)).toBe("half an answer"));
    await clock.advance(20_000);
    expect(causeOf(await failureOf(ended, log))).toContain("silent");
    await vi.waitFor(() => expect(provider.open()).toBe(0));
  });

  it.each([
    ["a reset connection", { cutAfter: [{ text: "half" }] }],
    ["a body that ends early", { endAfter: [{ text: "half" }] }],
    ["an event that is no JSON", { malformedAfter: [{ text: "half" }] }],
    ["an error in the stream", { errorAfter: [{ text: "half" }], type: "api_error", message: "secret-in-body" }],
    ["a refusal of the model", { answer: [{ text: "half" }], finish: "refusal" }],
  ] as [string, ScriptedReply][])("fails after %s, does not retry and keeps what it yielded", async (_, reply) => {
    const { start, log, provider } = await setUp(name, [reply]);
    const { parts, ended } = start();
    await failureOf(ended, log);
    expect(textOf(parts)).toBe("half");
    expect(provider.requests).toHaveLength(1);
  });

  it("fails when the provider cannot be reached", async () => {
    const { start, log, provider } = await setUp(name, [{ silent: true }]);
    await provider.close();
    providers.length = 0;
    expect(causeOf(await failureOf(start().ended, log))).toContain("ECONNREFUSED");
  });

  it("throws the reason of its signal, and closes the connection", async () => {
    for (const reply of [{ silent: true }, { stallAfter: [{ text: "half" }] }] as ScriptedReply[]) {
      const { start, provider } = await setUp(name, [reply]);
      const abort = new AbortController();
      const { ended } = start({ signal: abort.signal });
      await vi.waitFor(() => expect(provider.requests).toHaveLength(1));
      const reason = new Error("stopped by the person");
      abort.abort(reason);
      await expect(ended).rejects.toBe(reason);
      await vi.waitFor(() => expect(provider.open()).toBe(0));
    }
  });

  it("throws the reason of its signal while it waits for a retry", async () => {
    const { start, log } = await setUp(name, [{ status: 429, headers: { "Retry-After": "7" } }]);
    const abort = new AbortController();
    const { ended } = start({ signal: abort.signal });
    await vi.waitFor(() => expect(log.lines).toHaveLength(1));
    abort.abort(new Error("deadline"));
    await expect(ended).rejects.toThrow("deadline");
  });

  it("writes nothing to the console", async () => {
    const spies = (["error", "warn", "log", "info"] as const).map((level) =>
      vi.spyOn(console, level).mockImplementation(() => undefined),
    );
    const warning = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
    const { start, log } = await setUp(name, [{ malformedAfter: [{ text: "half" }] }]);
    await failureOf(start().ended, log);
    expect(globalThis.AI_SDK_LOG_WARNINGS).toBe(false);
    for (const spy of [...spies, warning]) {
      expect(spy).not.toHaveBeenCalled();
      spy.mockRestore();
    }
  });
});

describe("the providers' own base URLs", () => {
  it.each([
    ["openai", "https://api.openai.com/v1/chat/completions"],
    ["anthropic", "https://api.anthropic.com/v1/messages"],
  ] as const)("T3: %s ignores the variables that its SDK reads", async (provider, url) => {
    const fetched = vi.fn(async (_input: unknown, _init?: RequestInit) => new Response(null, { status: 400 }));
    vi.stubGlobal("fetch", fetched);
    vi.stubEnv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    vi.stubEnv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/v1");
    const model = await createInference(
      { provider, model: "fake-model", apiKey: new Secret("sk-test"), baseUrl: null },
      { clock: createTestClock(), entropy: createSeededEntropy(), log: createTestLog() },
    );
    const messages: InferenceMessage[] = [{ role: "user", text: "hello" }];
    const round = model.stream({ system: "", messages, tools: [], signal: new AbortController().signal });
    await expect(round[Symbol.asyncIterator]().next()).rejects.toThrow(Problem);
    vi.unstubAllGlobals();
    vi.unstubAllEnvs();
    expect(fetched.mock.calls.map(([input]) => String(input))).toEqual([url]);
    expect(fetched.mock.calls[0]?.[1]?.redirect).toBe("manual");
  });

  it("retries an overload that Anthropic reports as the first event of a stream", async () => {
    const { start, clock, log } = await setUp("anthropic", [
      { errorAfter: [], type: "overloaded_error", message: "secret-in-body" },
      { answer: [{ text: "late" }] },
    ]);
    const { parts, ended } = start();
    await vi.waitFor(() => expect(log.lines).toHaveLength(1));
    expect(log.text()).not.toContain("secret-in-body");
    await clock.advance(1_000);
    await ended;
    expect(textOf(parts)).toBe("late");
  });
});
