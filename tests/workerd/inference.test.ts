/** @module-tag workerd */
import { afterEach, expect, it } from "vitest";
import { type ScriptedReply, startModelProvider } from "../fakes/model-provider.ts";
import { createTestCore } from "../support/core.ts";

const opened: { close(): Promise<void> }[] = [];
afterEach(() => Promise.all(opened.splice(0).map((each) => each.close())));

/** Asks a question of a core in workerd whose provider follows `script`. */
const ask = async (name: "openai" | "anthropic", script: readonly ScriptedReply[]) => {
  const provider = await startModelProvider(name, script);
  const test = await createTestCore({
    env: {
      SVC_INFERENCE_PROVIDER: name,
      SVC_INFERENCE_API_KEY: provider.key,
      SVC_INFERENCE_BASE_URL: provider.baseUrl,
    },
  });
  opened.push(provider, test);
  const { body } = await test.auditor.post<{ id: string }>("/v1/chat/sessions");
  const path = `/v1/chat/sessions/${body.id}/messages`;
  const answer = await test.auditor.post<string>(path, { content: "Hello" });
  return { answer, provider, log: test.log };
};

it.each(["openai", "anthropic"] as const)("streams an answer of %s", async (name) => {
  const { answer, provider } = await ask(name, [
    { answer: [{ text: "Drei Höste stehen still." }] },
  ]);
  const text = Array.from(
    answer.body.matchAll(/event: text_delta\ndata: (.*)/g),
    ([, data = ""]) => JSON.parse(data).text,
  );
  expect(text.join("")).toBe("Drei Höste stehen still.");
  expect(answer.body).toContain("event: done");
  expect(provider.requests).toHaveLength(1);
});

it.each(["openai", "anthropic"] as const)("retries HTTP 503 of %s", async (name) => {
  const { answer, provider } = await ask(name, [
    { status: 503, headers: { "Retry-After": "0" } },
    { answer: [{ text: "late" }] },
  ]);
  expect(answer.body).toContain("event: done");
  expect(provider.requests).toHaveLength(2);
});

it.each(["openai", "anthropic"] as const)("T3: follows no redirect of %s", async (name) => {
  const elsewhere = await startModelProvider(name, [{ answer: [{ text: "stolen" }] }]);
  opened.push(elsewhere);
  const { answer } = await ask(name, [{ status: 307, headers: { Location: elsewhere.baseUrl } }]);
  expect(answer.status).toBe(502);
  expect(answer.body).toMatchObject({ code: "inference_failed" });
  expect(elsewhere.requests).toHaveLength(0);
});

it.each(["openai", "anthropic"] as const)(
  "ends with an error when %s cuts its stream",
  async (name) => {
    const { answer } = await ask(name, [{ cutAfter: [{ text: "half an answer" }] }]);
    expect(JSON.stringify(answer.body)).toContain("inference_failed");
  },
);
