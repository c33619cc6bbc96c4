import { afterAll, describe, expect, it } from "vitest";
import {
  createTestToken,
  enrollTestCollector,
  identityPrefix,
} from "../../../tests/support/collector.ts";
import { createTestCore } from "../../../tests/support/core.ts";

const test = await createTestCore({ env: { SVC_ADVERTISED_CORE_URL: "https://core.example.com" } });
afterAll(() => test.close());

interface Setup {
  steps: { step: string; done: boolean; detail: string }[];
  policy: { id: string; name: string; identity_prefix: string } | null;
}
const read = async () =>
  (await test.api<Setup>("GET", "/v1/collector/setup", { as: "auditor" })).body;
const missing = ({ steps }: Setup) => steps.filter(({ done }) => !done).map(({ step }) => step);

describe("GET /v1/collector/setup", () => {
  it("reports each step until the first host has enrolled", async () => {
    const before = await read();
    expect(before).toMatchObject({
      core_url: "https://core.example.com",
      ingest_address: null,
      policy: null,
    });
    expect(missing(before)).toEqual(["ingest", "policy", "token", "host"]);
    const { token, policyId } = await createTestToken(test);
    const ready = await read();
    expect(missing(ready)).toEqual(["ingest", "host"]);
    expect(ready.policy).toMatchObject({ id: policyId, identity_prefix: identityPrefix });
    await enrollTestCollector(test, { token, deviceId: "first" });
    expect(missing(await read())).toEqual(["ingest"]);
    await test.api("POST", `/v1/collector/enrollment-policies/${policyId}/freeze`, { as: "admin" });
    expect(missing(await read())).toEqual(["ingest", "policy", "token"]);
  });

  it("needs the scope audit", async () => {
    expect((await test.api("GET", "/v1/collector/setup", { as: "reader" })).status).toBe(403);
  });
});
