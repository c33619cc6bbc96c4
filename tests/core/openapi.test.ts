import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";
import * as v from "valibot";
import { expect, it } from "vitest";
import { anyone } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { Problem } from "#functions/problems.ts";
import { renderOpenApi } from "#scripts/generate/artifacts.ts";
import { dereference } from "#scripts/generate/dereference.ts";
import { documentedRoutes } from "#scripts/generate/documented-routes.ts";
import { workloadEnvironment } from "#scripts/lab/core-environment.ts";
import { useTestCore } from "../support/core.ts";

const test = await useTestCore({ env: workloadEnvironment });

interface Operation {
  operationId: string;
  responses: Record<number, { headers?: object }>;
}
interface OpenApi {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
}

it("matches the routes: if not, run `bun run generate`", async () => {
  for (const { path, text } of await renderOpenApi())
    expect(readFileSync(path, "utf8") === text).toBe(true);
});

it("is valid OpenAPI 3.1, served to anyone, and documents every route of the router", async () => {
  const { status, body, headers } = await test.api<OpenApi>("GET", "/v1/openapi.json");
  expect(status).toBe(200);
  const etag = headers.get("etag") ?? "";
  for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
    const again = await test.api("GET", "/v1/openapi.json", {
      headers: { "If-None-Match": tags },
    });
    expect([tags, again.status]).toEqual([tags, 304]);
  }
  const changed = await test.api("GET", "/v1/openapi.json", {
    headers: { "If-None-Match": '"other"' },
  });
  expect(changed.status).toBe(200);
  expect(await new Validator().validate({ ...body })).toEqual({ valid: true });
  const documented = Object.entries(body.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(
      (method) => `${method.toUpperCase()} ${path.replace(/\{([a-z_]+)\}/g, ":$1")}`,
    ),
  );
  expect(documented.sort()).toEqual(
    test.routes.map(({ method, path }) => `${method} ${path}`).sort(),
  );
  const ids = Object.values(body.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
});

it.each(documentedRoutes().map((entry) => [`${entry.method} ${entry.path}`, entry] as const))(
  "%s: its examples satisfy its schemas",
  (_, { body, replies }) => {
    if (body?.example !== undefined)
      expect(v.safeParse(body.schema, body.example).issues).toBeUndefined();
    for (const { schema, example } of Object.values(replies))
      if (schema && example !== undefined)
        expect(v.safeParse(schema, example).issues).toBeUndefined();
  },
);

it("documents the headers of a refusal", async () => {
  const { body } = await test.api<OpenApi>("GET", "/v1/openapi.json");
  const { paths } = dereference<OpenApi>(body);
  const named = (status: number) =>
    Object.keys(paths["/v1/whoami"]?.get?.responses[status]?.headers ?? {});
  const refusal = await test.api("GET", "/v1/whoami");
  expect(named(refusal.status)).toEqual(["X-Request-Id", "WWW-Authenticate"]);
  for (const name of named(refusal.status))
    expect({ name, there: refusal.headers.has(name) }).toEqual({ name, there: true });
  expect(named(503)).toEqual(["X-Request-Id", "Retry-After"]);
});

it("states what core accepts: patterns, formats, what 0 means, caps and the answer to large headers", async () => {
  const { paths } = dereference<ReturnType<typeof JSON.parse>>(
    JSON.parse(readFileSync("proto/openapi.json", "utf8")),
  );
  const bodyOf = (path: string) => paths[path].post.requestBody.content["application/json"].schema;
  const [, failure] = bodyOf("/v1/operator/sign-ins").oneOf;
  expect(failure.properties.reason_code.pattern).toBe("^[a-z][a-z0-9_]{0,63}$");
  expect(failure.properties.remote_addr.anyOf).toEqual([{ format: "ipv4" }, { format: "ipv6" }]);
  const token = bodyOf("/v1/collector/enrollment-policies/{id}/tokens").properties;
  expect(token.max_uses.description).toContain("0 means unlimited");
  expect(token.ttl_seconds).toMatchObject({
    maximum: 604_800,
    description: "0 means 3600: an hour",
  });
  const policy = bodyOf("/v1/collector/enrollment-policies").properties;
  expect(policy.certificate_ttl_seconds.description).toContain("it is capped");
  expect(
    new RegExp(policy.allowed_identity_prefixes.items.pattern).test("spiffe://a.test/hosts/"),
  ).toBe(true);
  for (const methods of Object.values<Record<string, Operation>>(paths))
    for (const { responses } of Object.values(methods)) expect(responses).toHaveProperty("431");
});

it("is checked by every route test: an undocumented response fails the call", async () => {
  const answers = { status: 200, body: {}, fail: false };
  const liar = await useTestCore({
    routes: () => [
      route({
        method: "GET",
        path: "/v1/liar/:id",
        operationId: "liar",
        summary: "Answers what it does not document",
        guard: anyone,
        replies: { 200: { description: "A name", schema: v.object({ name: v.string() }) } },
        handle: async () => {
          if (answers.fail) throw new Problem("policy_frozen");
          return { status: answers.status, body: answers.body };
        },
      }),
    ],
  });
  const call = () => liar.api("GET", "/v1/liar/1?x=y");
  await expect(call()).rejects.toThrow(/its schema rejects: name/);
  answers.body = { name: "n" };
  expect((await call()).status).toBe(200);
  answers.status = 202;
  await expect(call()).rejects.toThrow(/returned 202, which is not among its replies/);
  answers.fail = true;
  await expect(call()).rejects.toThrow(/403 policy_frozen, which it does not list/);
});
