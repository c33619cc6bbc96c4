import { describe, expect, it } from "vitest";
import { anyone } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import type { Route } from "#functions/http/route-definition.ts";
import { insertSession } from "#functions/store/operator-session/operator-sessions.ts";
import { systemEntropy, uuidv7 } from "#kit/entropy.ts";
import { workloadEnvironment } from "#scripts/lab/core-environment.ts";
import type { PersonName } from "#scripts/lab/people.ts";
import { type TestCore, useTestCore } from "../support/core.ts";
import { scimEnvironment } from "../support/scim.ts";

/** The routes that need no credentials. A route enters this list by a decision, not by omission. */
const openRoutes = [
  "GET /healthz",
  "GET /readyz",
  "GET /v1/openapi.json",
  "POST /v1/operator/token-exchange",
];

/** The routes that web calls as itself, for people and programs who are not signed in yet. */
const webRoutes = [
  "POST /v1/operator/devices",
  "POST /v1/operator/provider-logouts",
  "POST /v1/operator/sign-ins",
  "POST /v1/operator/sign-outs",
  "POST /v1/operator/tokens",
];

/** The routes that take 12 MiB. */
const largeRoutes = ["/v1/collector/inventory", "/v1/collector/applied-sets/:name"];

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** Returns the routes of the router; `ALL` is a middleware or the answer to other methods. */
const registeredIn = (app: TestCore["app"]) => app.routes.filter(({ method }) => method !== "ALL");
const nameOf = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;
const concrete = (path: string) =>
  path
    .replace(":queue", "0".repeat(32))
    .replace(/:[a-z_]+/g, "01920000-0000-7000-8000-0000000000ff");

/** Returns the faults in the access to a registered route; empty when it rejects every caller but those it names. */
const accessFaults = async (
  test: TestCore,
  entry: Route | undefined,
  method: string,
  path: string,
) => {
  if (entry === undefined) return ["declares no guard"];
  const { guard } = entry;
  if (guard.kind === "open")
    return openRoutes.includes(`${method} ${path}`) ? [] : ["is open and not listed"];
  const faults: string[] = [];
  const expectRefusal = async (
    who: string,
    call: Parameters<TestCore["api"]>[2],
    status: number,
    code?: string,
  ) => {
    const answer = await test.api(method, concrete(path), call);
    if (answer.status !== status || (code !== undefined && answer.body?.code !== code))
      faults.push(`${who}: ${answer.status}, expected ${status}`);
  };
  // A body that no schema accepts: the guard must reject the caller before the body is parsed.
  const nonsense = method === "GET" ? {} : { raw: { type: "text/plain", content: "{" } };
  if (guard.kind === "ops") {
    await expectRefusal("anonymous", {}, 403, "ops_access_denied");
    await expectRefusal("an admin's bridge token", { as: "admin" }, 403, "ops_access_denied");
  } else if (guard.kind === "web") {
    await expectRefusal("anonymous", nonsense, 401);
    // With a person's token, web may only record that person's sign-in; no scope allows it.
    for (const person of Object.keys(test.people) as PersonName[])
      await expectRefusal(
        person,
        { as: person, body: { outcome: "failure", ...refusedSignIn } },
        403,
        "forbidden",
      );
  } else if (guard.kind === "web_itself") {
    await expectRefusal("anonymous", nonsense, 401);
    for (const person of Object.keys(test.people) as PersonName[])
      await expectRefusal(person, { as: person, ...nonsense }, 403, "forbidden");
  } else if (guard.kind === "web_person") {
    await expectRefusal("anonymous", nonsense, 401);
    await expectRefusal("web itself", { as: await webItself(test), ...nonsense }, 403, "forbidden");
    await expectRefusal("a program", { as: await program(test), ...nonsense }, 403, "forbidden");
  } else if (guard.kind !== "scope") {
    await expectRefusal("anonymous", nonsense, 401);
    await expectRefusal("an admin's bridge token", { as: "admin", ...nonsense }, 401);
  } else {
    await expectRefusal("anonymous", nonsense, 401);
    for (const person of Object.keys(test.people) as PersonName[]) {
      if (!test.people[person].scopes.some((held) => held === guard.scope))
        await expectRefusal(person, { as: person, ...nonsense }, 403, "forbidden");
      else if (
        [401, 403].includes(
          (await test.api(method, concrete(path), { as: person, ...nonsense })).status,
        )
      )
        faults.push(`${person}: refused in spite of the scope`);
    }
  }
  return faults;
};

const webItself = async (test: TestCore) => ({
  bearer: await test.bridgeToken("admin", { sub: "web" }),
});

/** The token of a session that an admin's program has. */
const program = async ({ db, clock, people, bridgeToken }: TestCore) => {
  const id = uuidv7({ clock, entropy: systemEntropy });
  const { userId } = people.admin;
  const times = {
    createdAt: new Date(clock.now()),
    expiresAt: new Date(clock.now() + 3_600_000),
    revokedAt: null,
  };
  await insertSession(db, {
    id,
    userId,
    flow: "device",
    clientName: "a program",
    remoteAddress: "::1",
    ...times,
  });
  return { bearer: await bridgeToken("admin", { sid: id }) };
};

const refusedSignIn = { reason_code: "suspended", remote_addr: "192.0.2.7" };

const test = await useTestCore({ env: workloadEnvironment });
const declared = new Map(test.routes.map((entry) => [nameOf(entry), entry]));
const registered = registeredIn(test.app);

const withBody = test.routes.filter(
  ({ body, guard }) => body !== undefined && guard.scope !== undefined,
);

describe.each([[withBody.length]])("%i routes with a body", () => {
  it.each(withBody.map((entry) => [nameOf(entry), entry] as const))(
    "O3: %s refuses many values and deep nesting before it parses them",
    async (_, { method, path, guard: { scope } }) => {
      const [as] = Object.entries(test.people).flatMap(([name, { scopes }]) =>
        scopes.some((held) => held === scope) ? [name as PersonName] : [],
      );
      const send = async (content: string) => {
        const raw = { type: "application/json", content };
        const { status, body } = await test.api(method, concrete(path), { ...(as && { as }), raw });
        return [status, body.code, body.detail];
      };
      const limit = largeRoutes.includes(path) ? 12 * 131_072 : 131_072;
      const many = `Send less at once: the JSON has more than ${limit} members and elements`;
      expect(await send(`{"a":[${"{},".repeat(limit / 2)}{}]}`)).toEqual([
        413,
        "payload_too_large",
        many,
      ]);
      const deep = "Nest less: the JSON nests deeper than 32";
      expect(await send(`{"a":${"[".repeat(40)}${"]".repeat(40)}}`)).toEqual([
        400,
        "malformed_json",
        deep,
      ]);
    },
  );
});

describe("I1: access is denied by default", () => {
  it("every route of the router is declared, and only the routes listed here are open", () => {
    expect(registered.map(nameOf).sort()).toEqual([...declared.keys()].sort());
    const openOnes = [...declared.values()]
      .filter(({ guard }) => guard.kind === "open")
      .map(nameOf);
    expect(openOnes.sort()).toEqual([...openRoutes].sort());
  });

  it.each(registered.map((entry) => [nameOf(entry), entry] as const))(
    "%s",
    async (name, { method, path }) => {
      expect(await accessFaults(test, declared.get(name), method, path)).toEqual([]);
    },
  );

  it("every route of SCIM rejects callers without its token, admins too", async () => {
    const scim = await useTestCore({ env: scimEnvironment });
    const routes = scim.routes.filter(({ guard }) => guard.kind === "scim");
    expect(routes.map(nameOf).sort()).toEqual(
      registeredIn(scim.app)
        .map(nameOf)
        .filter((name) => name.includes("/scim/"))
        .sort(),
    );
    expect(routes.length).toBe(17);
    const faults: string[] = [];
    for (const entry of routes) {
      faults.push(...(await accessFaults(scim, entry, entry.method, entry.path)));
      // Refusals of one address are limited.
      await scim.clock.advance(20_000);
    }
    expect(faults).toEqual([]);
    expect(registered.filter(({ path }) => path.startsWith("/scim"))).toEqual([]);
  });

  it("the exchange of tokens exists only with an issuer of workloads", async () => {
    const without = await useTestCore();
    const { status } = await without.api("POST", "/v1/operator/token-exchange", {
      raw: { type: "text/plain", content: "{" },
    });
    expect(status).toBe(404);
  });

  it("no path accepts a method that it does not declare", async () => {
    for (const path of new Set(registered.map((entry) => entry.path)))
      for (const method of methods.filter((other) => !declared.has(`${other} ${path}`))) {
        const { status } = await test.api(method, concrete(path), { as: "admin" });
        expect({ path, method, status }).toEqual({ path, method, status: 405 });
      }
  });

  it("web's own bridge token is accepted for signing people and programs in only", async () => {
    const { bearer } = await webItself(test);
    const opened: string[] = [];
    for (const { method, path } of registered) {
      const nonsense = method === "GET" ? {} : { raw: { type: "text/plain", content: "{" } };
      const { status } = await test.api(method, concrete(path), { as: { bearer }, ...nonsense });
      if (status !== 401 && status !== 403) opened.push(`${method} ${path}`);
    }
    expect(opened.sort()).toEqual([...openRoutes, ...webRoutes].sort());
  });

  it("detects a guard that admits everybody, an undeclared route, and an open route that is not listed", async () => {
    const leak = (guard: Route["guard"]) =>
      route({
        method: "GET",
        path: "/v1/leak",
        operationId: "leak",
        summary: "A leak",
        guard: { describe: guard, admit: anyone.admit },
        replies: { 200: { description: "Leaked" } },
        handle: async () => ({ status: 200, body: {} }),
      });
    const careless = leak({ kind: "scope", scope: "admin" });
    const leaky = await useTestCore({ routes: () => [careless] });
    expect(registeredIn(leaky.app).map(nameOf)).toEqual(["GET /v1/leak"]);
    expect(await accessFaults(leaky, careless, "GET", "/v1/leak")).toHaveLength(3);
    expect(await accessFaults(leaky, undefined, "GET", "/v1/leak")).toEqual(["declares no guard"]);
    expect(await accessFaults(leaky, leak({ kind: "open" }), "GET", "/v1/leak")).toEqual([
      "is open and not listed",
    ]);
  });
});
