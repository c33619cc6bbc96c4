import { describe, expect, it, vi } from "vitest";
import type { ScriptedReply } from "#tests/fakes/model-provider.ts";
import { causeOf, failureOf, setUpProvider, textOf } from "#tests/support/chat/provider-model.ts";

const later = (after: string) => ({ status: 429, headers: { "Retry-After": after } });
type Provided = Awaited<ReturnType<typeof setUpProvider>>;
const logged = ({ lines }: Provided["log"], count: number) =>
  vi.waitFor(() => expect(lines).toHaveLength(count));
const closed = (provider: Provided["provider"]) =>
  vi.waitFor(() => expect(provider.open()).toBe(0));

describe.each(["openai", "openai-compatible", "litellm", "anthropic"] as const)(
  "the provider %s",
  (name) => {
    it("fails when the model calls an unknown tool", async () => {
      const { start, log } = await setUpProvider(name, [
        { answer: [{ id: "call_1", tool: "drop_table", json: "{}" }] },
      ]);
      expect(causeOf(await failureOf(start().ended, log))).toContain("unknown tool");
    });

    it.each([429, 500, 503, 529])(
      "retries HTTP %i after the seconds of Retry-After",
      async (status) => {
        const { start, clock, log, provider } = await setUpProvider(name, [
          { status, headers: { "Retry-After": "7" } },
          { answer: [{ text: "late" }] },
        ]);
        const { parts, ended } = start();
        await logged(log, 1);
        await clock.advance(6_999);
        expect(provider.requests).toHaveLength(1);
        await clock.advance(1);
        await ended;
        expect(textOf(parts)).toBe("late");
        expect(log.text()).toContain(String(status));
      },
    );

    it("retries after the date of Retry-After, and backs off without one", async () => {
      const { start, clock, log, provider } = await setUpProvider(name, [
        later("Mon, 01 Jun 2026 12:00:04 GMT"),
        { status: 502 },
        { answer: [{ text: "late" }] },
      ]);
      const { ended } = start();
      await logged(log, 1);
      await clock.advance(3_999);
      expect(provider.requests).toHaveLength(1);
      await clock.advance(1);
      await logged(log, 2);
      await clock.advance(2_000);
      await ended;
      expect(provider.requests).toHaveLength(3);
    });

    it("does not wait for the end of a failed response's body", async () => {
      const { start, log, provider } = await setUpProvider(name, [{ status: 400, endless: true }]);
      await failureOf(start().ended, log);
      await closed(provider);
    });

    it("fails at once when Retry-After is longer than a turn can wait, and passes it on", async () => {
      const { start, log, provider } = await setUpProvider(name, [later("3600")]);
      const problem = await failureOf(start().ended, log);
      expect(problem.options.retryAfterSeconds).toBe(3600);
      expect(provider.requests).toHaveLength(1);
    });

    it("gives up after five attempts", async () => {
      const { start, clock, log, provider } = await setUpProvider(name, [
        { status: 503, headers: { "Retry-After": "1" } },
      ]);
      const { ended } = start();
      for (let attempt = 1; attempt < 5; attempt++) {
        await logged(log, attempt);
        await clock.advance(1_000);
      }
      expect(causeOf(await failureOf(ended, log))).toContain("503");
      expect(provider.requests).toHaveLength(5);
    });

    it.each([400, 401, 403, 404])("does not retry HTTP %i", async (status) => {
      const { start, log, provider } = await setUpProvider(name, [
        { status, body: '{"error":{"message":"secret-in-body"}}' },
      ]);
      expect(causeOf(await failureOf(start().ended, log))).toContain(String(status));
      expect(provider.requests).toHaveLength(1);
    });

    it("rejects a wrong key without logging what the provider quotes", async () => {
      const { start, log, provider } = await setUpProvider(name, [
        { status: 401, body: `{"error":{"message":"Incorrect API key provided: sk-test-c0ffee"}}` },
      ]);
      await failureOf(start().ended, log);
      expect(provider.requests).toHaveLength(1);
    });

    it("fails when the provider sends no status for 20 s", async () => {
      const { start, clock, log, provider } = await setUpProvider(name, [{ silent: true }]);
      const { ended } = start();
      await vi.waitFor(() => expect(provider.requests).toHaveLength(1));
      await clock.advance(20_000);
      expect(causeOf(await failureOf(ended, log))).toContain("silent");
      await closed(provider);
    });

    it("fails when a stream is silent for 20 s, and keeps what it yielded", async () => {
      const { start, clock, log, provider } = await setUpProvider(name, [
        { stallAfter: [{ text: "half an answer" }] },
      ]);
      const { parts, ended } = start();
      await vi.waitFor(() => expect(textOf(parts)).toBe("half an answer"));
      await clock.advance(20_000);
      expect(causeOf(await failureOf(ended, log))).toContain("silent");
      await closed(provider);
    });

    it.each([
      ["a reset connection", { cutAfter: [{ text: "half" }] }],
      ["a body that ends early", { endAfter: [{ text: "half" }] }],
      ["an event that is no JSON", { malformedAfter: [{ text: "half" }] }],
      [
        "an error in the stream",
        { errorAfter: [{ text: "half" }], type: "api_error", message: "secret-in-body" },
      ],
      ["a refusal of the model", { answer: [{ text: "half" }], finish: "refusal" }],
    ] as [string, ScriptedReply][])(
      "fails after %s, does not retry and keeps what it yielded",
      async (_, reply) => {
        const { start, log, provider } = await setUpProvider(name, [reply]);
        const { parts, ended } = start();
        await failureOf(ended, log);
        expect(textOf(parts)).toBe("half");
        expect(provider.requests).toHaveLength(1);
      },
    );

    it.each([
      ["nested deeply", "[".repeat(40)],
      ["of many values", `[${"{},".repeat(600_000)}{}]`],
      ["of 9 MiB", "x".repeat(9 * 1024 * 1024)],
    ])("O3: fails before it parses events %s", async (_, data) => {
      const headers = { "Content-Type": "text/event-stream" };
      const { start, log } = await setUpProvider(name, [
        { status: 200, headers, body: `data: ${data}\n\n` },
      ]);
      expect(causeOf(await failureOf(start().ended, log))).toContain("the JSON ");
    });

    it("fails when the provider cannot be reached", async () => {
      const { start, log, provider } = await setUpProvider(name, [{ silent: true }]);
      await provider.close();
      expect(causeOf(await failureOf(start().ended, log))).toContain("ECONNREFUSED");
    });

    it("throws the reason of its signal, and closes the connection", async () => {
      for (const reply of [
        { silent: true },
        { stallAfter: [{ text: "half" }] },
      ] as ScriptedReply[]) {
        const { start, provider } = await setUpProvider(name, [reply]);
        const abort = new AbortController();
        const { ended } = start({ signal: abort.signal });
        await vi.waitFor(() => expect(provider.requests).toHaveLength(1));
        const reason = new Error("stopped by the person");
        abort.abort(reason);
        await expect(ended).rejects.toBe(reason);
        await closed(provider);
      }
    });

    it("throws the reason of its signal while it waits for a retry", async () => {
      const { start, log } = await setUpProvider(name, [later("7")]);
      const abort = new AbortController();
      const { ended } = start({ signal: abort.signal });
      await logged(log, 1);
      abort.abort(new Error("deadline"));
      await expect(ended).rejects.toThrow("deadline");
    });

    it("writes nothing to the console", async () => {
      const spies = (["error", "warn", "log", "info"] as const).map((level) =>
        vi.spyOn(console, level).mockImplementation(() => undefined),
      );
      const warning = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
      const { start, log } = await setUpProvider(name, [{ malformedAfter: [{ text: "half" }] }]);
      await failureOf(start().ended, log);
      expect(globalThis.AI_SDK_LOG_WARNINGS).toBe(false);
      for (const spy of [...spies, warning]) {
        expect(spy).not.toHaveBeenCalled();
        spy.mockRestore();
      }
    });
  },
);

it("the provider anthropic retries an overload that Anthropic reports as the first event of a stream", async () => {
  const { start, clock, log } = await setUpProvider("anthropic", [
    { errorAfter: [], type: "overloaded_error", message: "secret-in-body" },
    { answer: [{ text: "late" }] },
  ]);
  const { parts, ended } = start();
  await logged(log, 1);
  expect(log.text()).not.toContain("secret-in-body");
  await clock.advance(1_000);
  await ended;
  expect(textOf(parts)).toBe("late");
});
