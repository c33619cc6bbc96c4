import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { sql } from "drizzle-orm";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import type { AppliedSet } from "../../proto/applied-set/applied-set.ts";
import type { Watch } from "../../proto/watch/watch.ts";
import { type AdminUser, createAdminUser } from "../support/admin.ts";
import { createTestToken, enrollTestCollector, identityPrefix } from "../support/collector.ts";
import { testConfigYaml } from "../support/rollout.ts";
import { startTestWeb } from "../support/web.ts";

const secret = `whsec_${btoa("a secret of 24 bytes at least")}`;
const receivers = `web_url: https://fleet.test
receivers: [{kind: webhook, name: on-call, url: 'https://hook.test', secret: '${secret}'}]`;
const web = await startTestWeb({ core: { env: { SVC_WATCH_RECEIVERS: receivers } } });
const { core } = web;
const home = createAdminUser();
const tokenFile = join(home.home, "token");
const env = { SVC_ADMIN_URL: web.origin, SVC_ADMIN_TOKEN_FILE: tokenFile };
/** Runs before each request of svc-admin, which is not sent if it throws. */
let intercept: (method: string, path: string) => Promise<void> | void = () => undefined;
const admin = createAdminUser({
  env,
  fetch: async (input, init) => {
    const { method, url } = input as Request;
    await intercept(method, new URL(url).pathname);
    return fetch(input, init);
  },
});
beforeEach(async () => {
  intercept = () => undefined;
  writeFileSync(tokenFile, await core.bridgeToken("admin"));
});
afterAll(async () => {
  for (const user of [home, admin]) user.close();
  await web.close();
});

const { token } = await createTestToken(core, { labels: { env: "prod" } });
const [one, two] = [
  await enrollTestCollector(core, { token, deviceId: "web-1" }),
  await enrollTestCollector(core, { token, deviceId: "web-2" }),
];

let sets = 0;
/** The files of a repository, whose set and names are those of no other test. */
const createFiles = () => {
  const set = `set-${++sets}`;
  const dir = mkdtempSync(join(home.home, "fleet-"));
  const write = (file: string, content: unknown) => {
    mkdirSync(dirname(join(dir, file)), { recursive: true });
    writeFileSync(join(dir, file), typeof content === "string" ? content : stringify(content));
  };
  const content = {
    set,
    configs: [{ name: `${set} config`, file: "configs/web.yaml" }],
    policies: [{ name: `${set} policy`, allowed_identity_prefixes: [identityPrefix] }],
    watches: [
      { name: `${set} stale`, filter: "state:stale", more_than: 5, receivers: ["on-call"] },
      { name: `${set} silent`, filter: "state:enrolling" },
    ],
    assignments: [{ config: `${set} config`, query: "label.env:prod" }],
    inventory: [{ name: "web-1", owner: set }, { name: "web-9" }],
  };
  write("configs/web.yaml", testConfigYaml(100 + sets));
  write("fleet.yaml", content);
  return { set, dir, write, content };
};

interface PlannedStep {
  action: string;
  kind: string;
  name: string;
  drift: boolean;
  fields: { field: string; from: unknown; to: unknown; drift: boolean }[];
  host_count: number;
  outcome?: string;
}

const run = async (command: "plan" | "apply", dir: string, ...args: string[]) => {
  const { exitCode, out, err } = await admin.run(command, dir, ...args, "-o", "json", "--yes");
  const steps = out === "" ? [] : (JSON.parse(out).steps as PlannedStep[]);
  return {
    exitCode,
    err,
    steps,
    brief: steps.map(({ action, kind, drift }) => `${action} ${kind}${drift ? " drift" : ""}`),
  };
};
const changesInAudit = async () =>
  Number((await core.db.execute<{ n: number }>(sql`select count(*)::int as n from audit_event`))[0]?.n);
const watchNamed = async (name: string) => {
  const { body } = await core.api<{ items: Watch[] }>("GET", "/v1/collector/watches?limit=1000", { as: "auditor" });
  return body.items.find((watch) => watch.name === name);
};
const contentOf = async (set: string) =>
  (await core.api<AppliedSet>("GET", `/v1/collector/applied-sets/${set}`, { as: "auditor" })).body.content;

describe("svc-admin plan and apply", () => {
  it("plan without a change, apply in the order of references, and then differ in nothing", async () => {
    const { set, dir } = createFiles();
    const before = await changesInAudit();
    const planned = await run("plan", dir);
    expect(planned).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining(`${set}: 6 changes`),
      brief: [
        "publish config",
        "create policy",
        "create watch",
        "create watch",
        "create inventory",
        "assign assignment",
      ],
    });
    expect(planned.steps.at(-1)).toMatchObject({ name: `${set} config`, host_count: 2 });
    expect(await changesInAudit()).toBe(before);
    expect(await admin.run("apply", dir)).toMatchObject({ exitCode: 2, err: expect.stringContaining("add --yes") });
    expect(await changesInAudit()).toBe(before);
    const applied = await run("apply", dir);
    expect({ ...applied, outcomes: applied.steps.map(({ outcome }) => outcome) }).toMatchObject({
      ...{ exitCode: 0, brief: planned.brief, outcomes: Array(6).fill("done") },
    });
    const after = await changesInAudit();
    expect(await run("plan", dir)).toMatchObject({ exitCode: 0, steps: [] });
    expect(await run("apply", dir)).toMatchObject({ exitCode: 0, steps: [], err: `${set}: no difference\n` });
    expect(await changesInAudit()).toBe(after);
    expect(await contentOf(set)).toMatchObject({
      complete: true,
      policies: [{ name: `${set} policy`, made: true }],
      watches: [{ name: `${set} silent` }, { name: `${set} stale`, more_than: 5, for_seconds: 300, made: true }],
      inventory: { made: true },
      assignments: [{ made: true, identity_ids: [one.identityId, two.identityId].toSorted() }],
    });
  });

  it("tell what somebody changed by hand from what the files change, and undo it", async () => {
    const { set, dir, write, content } = createFiles();
    expect(await run("apply", dir)).toMatchObject({ exitCode: 0 });
    const watch = await watchNamed(`${set} stale`);
    const other = await core.api("POST", "/v1/collector/configs", { as: "admin", body: { yaml: testConfigYaml(900) } });
    const change = {
      name: `${set} stale`,
      filter: "state:stale",
      more_than: 99,
      receivers: [],
      revision: watch?.revision,
    };
    await core.api("PUT", `/v1/collector/watches/${watch?.id}`, { as: "admin", body: change });
    const desired = `/v1/collector/identities/${one.identityId}/desired-config`;
    await core.api("PUT", desired, { as: "admin", body: { config_id: other.body.id } });
    await core.api("PUT", "/v1/collector/inventory", { as: "admin", body: { hosts: [{ name: "web-1" }] } });
    const silent = await watchNamed(`${set} silent`);
    await core.api("DELETE", `/v1/collector/watches/${silent?.id}`, { as: "admin" });
    const [stale, ...others] = content.watches;
    write("fleet.yaml", { ...content, watches: [{ ...stale, for_seconds: 900 }, ...others] });

    const { exitCode, steps, err, brief } = await run("plan", dir);
    expect([exitCode, brief]).toEqual([
      2,
      ["change watch drift", "create watch drift", "change inventory drift", "assign assignment drift"],
    ]);
    expect(err).toContain("4 changes, 4 of them to undo what somebody changed since the last apply");
    expect(steps[0]?.fields).toEqual([
      { field: "more_than", from: 99, to: 5, drift: true },
      { field: "for_seconds", from: 300, to: 900, drift: false },
      { field: "receivers", from: [], to: ["on-call"], drift: true },
    ]);
    expect(steps[3]).toMatchObject({ host_count: 1 });
    const table = (await admin.run("plan", dir)).out;
    expect(table).toMatch(/change +watch +set-\d+ stale +yes +more_than 99 -> 5 \(drift\); for_seconds 300 -> 900;/);
    expect(table).toMatch(/change +inventory +inventory +yes +1 changed: web-1; 1 added: web-9/);
    expect(await run("apply", dir)).toMatchObject({ exitCode: 0 });
    expect(await watchNamed(`${set} stale`)).toMatchObject({ more_than: 5, for_seconds: 900, receivers: ["on-call"] });
    expect(await run("plan", dir)).toMatchObject({ exitCode: 0, steps: [] });
  });

  it("delete with --prune what apply made and no file has any more, and nothing else", async () => {
    const { set, dir, write } = createFiles();
    const found = { name: `${set} found`, filter: "state:stale", for_seconds: 60 };
    await core.api("POST", "/v1/collector/watches", { as: "admin", body: found });
    await core.api("PUT", "/v1/collector/inventory?allow_empty=true", { as: "admin", body: { hosts: [] } });
    const remade = `${set} silent`;
    write("more.json", JSON.stringify({ watches: [found] }));
    expect(await run("apply", dir)).toMatchObject({ exitCode: 0 });
    const silent = await watchNamed(remade);
    await core.api("DELETE", `/v1/collector/watches/${silent?.id}`, { as: "admin" });
    await core.api("POST", "/v1/collector/watches", { as: "admin", body: { name: remade, filter: "state:enrolling" } });

    write("more.json", "{}");
    write("fleet.yaml", { set });
    const kept = await run("plan", dir);
    expect(kept).toMatchObject({ exitCode: 0, err: expect.stringContaining("kept that no file has any more") });
    expect(new Set(kept.steps.map(({ action }) => action))).toEqual(new Set(["keep"]));
    expect(await run("apply", dir)).toMatchObject({ exitCode: 0 });
    expect(await watchNamed(`${set} stale`)).toBeDefined();

    const planned = await run("plan", dir, "--prune");
    expect([planned.exitCode, planned.brief]).toEqual([
      2,
      ["clear assignment", "delete inventory", "delete watch", "freeze policy"],
    ]);
    expect(await run("apply", dir, "--prune")).toMatchObject({ exitCode: 0, brief: planned.brief });
    expect(await watchNamed(`${set} stale`)).toBeUndefined();
    for (const name of [found.name, remade]) expect(await watchNamed(name)).toBeDefined();
    expect(await run("plan", dir, "--prune")).toMatchObject({ exitCode: 0, steps: [] });
    const assigned = await core.api("GET", `/v1/collector/health/${one.identityId}`, { as: "auditor" });
    expect(assigned.body.item).toMatchObject({ config: { desired_config_hash: null } });
    expect(await contentOf(set)).toEqual({
      complete: true,
      policies: [],
      watches: [],
      inventory: null,
      assignments: [],
    });
  });
});

describe("an apply that ends in the middle", () => {
  const inventory = "/v1/collector/inventory";
  let isCutOff = false;

  it.each([
    {
      how: "when somebody changes what it read",
      code: "inventory_changed",
      meanwhile: async (method: string, path: string) => {
        const body = { hosts: [{ name: crypto.randomUUID() }] };
        if (method === "PUT" && path === inventory) await core.api("PUT", inventory, { as: "admin", body });
      },
    },
    {
      how: "when it is cut off, and cannot write what it did",
      code: "unreachable",
      meanwhile: (method: string, path: string) => {
        if (method === "PUT" && path === inventory) isCutOff = true;
        if (isCutOff) throw new TypeError("no route to host");
      },
    },
  ])("says what was and was not done, and the next one continues, $how", async ({ code, meanwhile }) => {
    const { set, dir, write } = createFiles();
    isCutOff = false;
    intercept = meanwhile;
    const { exitCode, steps, err } = await run("apply", dir);
    expect({ exitCode, outcomes: steps.map(({ outcome }) => outcome) }).toEqual({
      ...{ exitCode: 5, outcomes: ["done", "done", "done", "done", "not done", "not done"] },
    });
    expect(err).toContain(`code ${code}`);
    expect(err).toContain("4 of 6 changes were made: apply again to continue");

    intercept = () => undefined;
    expect(await run("apply", dir)).toMatchObject({ exitCode: 0, brief: ["change inventory", "assign assignment"] });
    expect(await run("plan", dir)).toMatchObject({ exitCode: 0 });
    write("fleet.yaml", { set });
    expect(await run("apply", dir, "--prune")).toMatchObject({ exitCode: 0 });
    expect(await watchNamed(`${set} stale`)).toBeUndefined();
  });
});

describe("the files", () => {
  const refused = async (files: Record<string, unknown>, user: AdminUser = admin) => {
    const made = createFiles();
    for (const [file, content] of Object.entries(files)) made.write(file, content);
    const before = await changesInAudit();
    const { exitCode, out, err } = await user.run("apply", made.dir, "--yes");
    expect({ exitCode, out, changes: (await changesInAudit()) - before }).toEqual({ exitCode: 1, out: "", changes: 0 });
    return err;
  };

  it.each([
    ["an unknown key", "set: a\nwatch: []\n", "fleet.yaml:2:1: watch is not a known key: they are set, configs,"],
    [
      "an unknown key of a watch",
      "set: a\nwatches: [{name: a, filter: '', email: x}]\n",
      "watches.0.email is not a known key",
    ],
    ["no set", "watches: []\n", "set must be in one of the files"],
    [
      "a name twice",
      "set: a\nwatches: [{name: a, filter: ''}, {name: a, filter: ''}]\n",
      "watches.1.name is the name of another",
    ],
    ["a key twice", "set: a\nset: b\n", "the key is repeated"],
    ["no YAML", "set: [\n", "fleet.yaml:2"],
    ["a query with a fault", "set: a\nwatches: [{name: a, filter: 'stat:x'}]\n", "watches.0.filter There is no stat:"],
    [
      "an unknown receiver",
      "set: a\nwatches: [{name: a, filter: '', receivers: [pager]}]\n",
      "watches.0.receivers.0 is no receiver of core, which has on-call",
    ],
    [
      "a config outside",
      "set: a\nconfigs: [{name: a, file: ../a.yaml}]\n",
      "configs.0.file must be a file below the directory",
    ],
    ["a config that is not there", "set: a\nconfigs: [{name: a, file: a.yml}]\n", "configs.0.file cannot be read"],
    [
      "an unknown config",
      "set: a\nassignments: [{config: a, query: 'label.env:prod'}]\n",
      "assignments.0.config must be the name of one",
    ],
    [
      "every host by mistake",
      "set: a\nassignments: [{config: a, query: ''}]\n",
      "assignments.0.query selects every host: write all: true",
    ],
    [
      "a query that changes by itself",
      "set: a\nassignments: [{config: a, query: 'state:stale'}]\n",
      "the rest changes by itself",
    ],
    [
      "an issuer that core has not",
      "set: a\npolicies: [{name: a, allowed_identity_prefixes: ['spiffe://a/'], workload: {issuer: 'https://x', rules: [{pattern: a}]}}]\n",
      "policies.0.workload.issuer must be an issuer",
    ],
  ])("are refused with %s, by file, path and remedy, before anything is changed", async (_, content, message) => {
    expect(await refused({ "fleet.yaml": content })).toContain(message);
  });

  it("never show a secret that stands where it must not", async () => {
    const watch = { name: "a", filter: "", receivers: [{ url: "https://hook.test", secret }] };
    const err = await refused({ "fleet.yaml": { set: "a", watches: [watch] } });
    expect(err).toContain("watches.0.receivers.0");
    expect(err).not.toContain(secret);
    const key =
      "-----BEGIN PRIVATE KEY-----\nMIIBVQIBADANBgkqhkiG9w0BAQEFAASCAT8wggE7AgEAAkEA\n-----END PRIVATE KEY-----";
    const yaml = `${testConfigYaml(800)}# ${key.replaceAll("\n", "\n# ")}\n`;
    const ofConfig = await refused({ "configs/web.yaml": yaml });
    expect(ofConfig).toMatch(/configs\/web.yaml:\d+:1: contains a PEM block/);
    expect(ofConfig).not.toContain("MIIBVQ");
  });

  it("may not change a policy, nor ignore that somebody froze it", async () => {
    const { set, dir, write, content } = createFiles();
    write("fleet.yaml", { set, policies: content.policies });
    expect(await run("apply", dir)).toMatchObject({ exitCode: 0 });
    const [policy] = content.policies;
    write("fleet.yaml", { set, policies: [{ ...policy, max_enrollments: 5 }] });
    expect((await admin.run("plan", dir)).err).toContain("policies.0.max_enrollments is another value in core");
    await admin.run("policies", "freeze", `${set} policy`, "--yes");
    write("fleet.yaml", { set, policies: content.policies });
    expect(await admin.run("plan", dir)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining("write frozen: true"),
    });
    write("fleet.yaml", { set, policies: [{ ...policy, frozen: true }] });
    expect(await run("plan", dir)).toMatchObject({ exitCode: 0, steps: [] });
  });

  it("may not assign two configs to one host", async () => {
    const { set, dir, write, content } = createFiles();
    write("configs/other.yaml", testConfigYaml(700));
    const configs = [...content.configs, { name: "other", file: "configs/other.yaml" }];
    const assignments = [...content.assignments, { config: "other", query: "device:web-1" }];
    write("fleet.yaml", { set, configs, assignments });
    const { exitCode, err } = await admin.run("plan", dir);
    expect([exitCode, err]).toEqual([
      1,
      expect.stringContaining(
        `assignments.1.query finds hosts that another assignment gives ${set} config: ${one.identity}`,
      ),
    ]);
  });
});

describe("exit codes and scopes", () => {
  it("a plan needs the scope audit, and an apply admin", async () => {
    const { dir } = createFiles();
    writeFileSync(tokenFile, await core.bridgeToken("auditor"));
    expect(await run("plan", dir)).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("has not checked the configs"),
    });
    const before = await changesInAudit();
    expect(await run("apply", dir)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining("needs the scope admin"),
    });
    expect(await changesInAudit()).toBe(before);
  });

  it("2 of a plan is a difference and no mistake", async () => {
    expect(await admin.run("plan")).toMatchObject({ exitCode: 1 });
    expect(await admin.run("plan", "x", "-o", "xml")).toMatchObject({ exitCode: 1 });
    expect(await admin.run("plan", join(home.home, "none"))).toMatchObject({ exitCode: 1 });
    const empty = mkdtempSync(join(home.home, "empty-"));
    expect((await admin.run("plan", empty)).err).toContain("has no file whose name ends in .yaml");
    const { dir } = createFiles();
    const nowhere = createAdminUser({ env: { SVC_ADMIN_TOKEN_FILE: tokenFile } });
    expect(await nowhere.run("plan", dir)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining("name the fleet"),
    });
    nowhere.close();
    rmSync(empty, { recursive: true });
  });
});
