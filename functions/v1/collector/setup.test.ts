import { expect, it } from "vitest";
import { createTestToken, identityPrefix } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore({ env: { SVC_ADVERTISED_CORE_URL: "https://core.example.com" } });

interface Setup {
  steps: { step: string; done: boolean; detail: string }[];
  policy: { id: string; name: string; identity_prefix: string } | null;
}
const read = () => test.auditor.read<Setup>("/v1/collector/setup");
const missing = ({ steps }: Setup) =>
  steps.flatMap(({ step, done }) => (done ? [] : [step])).join(" ");

it("GET /v1/collector/setup reports each step until the first host has enrolled", {
  tags: "workerd",
}, async () => {
  const before = await read();
  expect(before).toMatchObject({
    core_url: "https://core.example.com",
    ingest_address: null,
    policy: null,
  });
  expect(missing(before)).toBe("ingest policy token host");
  const { enroll, policyId } = await createTestToken(test);
  const ready = await read();
  expect(missing(ready)).toBe("ingest host");
  expect(ready.policy).toMatchObject({ id: policyId, identity_prefix: identityPrefix });
  await enroll("first");
  expect(missing(await read())).toBe("ingest");
  await test.admin.post(`/v1/collector/enrollment-policies/${policyId}/freeze`);
  expect(missing(await read())).toBe("ingest policy token");
});
