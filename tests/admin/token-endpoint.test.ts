import * as v from "valibot";
import { expect, it } from "vitest";
import { postForm } from "#admin/sign-in/token-endpoint.ts";
import { fetchOfFleet } from "#admin/terminal/terminal.ts";

const failWith = (code: string) => {
  const cause = Object.assign(new Error("of TLS or of TCP"), { code });
  const fetch = () => Promise.reject(new TypeError("fetch failed", { cause }));
  return postForm(
    { fetch, signal: new AbortController().signal },
    "https://fleet.test/oauth/token",
    {},
    v.unknown(),
  );
};

it.each([
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
])("names NODE_EXTRA_CA_CERTS when the fleet's certificate is not trusted: %s", async (code) => {
  await expect(failWith(code)).rejects.toThrow(
    "its certificate is not trusted; name its CA in NODE_EXTRA_CA_CERTS",
  );
});

it("names no certificate when nothing listens", async () => {
  await expect(failWith("ECONNREFUSED")).rejects.toThrow(/^the fleet cannot be reached$/);
});

it("O3: limits the JSON of any answer of a fleet, and no text of an export", async () => {
  const deep = "[".repeat(40);
  for (const type of ["application/json", "application/problem+json", "unknown/type"])
    await expect(
      fetchOfFleet(`data:${type},${deep}`).then((answer) => answer.text()),
    ).rejects.toThrow("nests deeper");
  expect(await (await fetchOfFleet(`data:text/x-ndjson,${deep}`)).text()).toBe(deep);
});
