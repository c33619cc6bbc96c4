import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { testConfigYaml } from "../support/rollout.ts";
import { createAdminUser, failsWith } from "./support/admin.ts";
import { createPlanTest, receiverSecret } from "./support/plan.ts";

const test = await createPlanTest();
const { admin, one, createFiles, run, countAuditEvents } = test;
beforeEach(() => test.signIn("admin"));

describe("the files", () => {
  const refused = async (files: Record<string, unknown>) => {
    const made = createFiles();
    for (const [file, content] of Object.entries(files)) made.write(file, content);
    const before = await countAuditEvents();
    const { exitCode, out, err } = await admin.run`apply ${made.dir} --yes`;
    expect({ exitCode, out, changes: (await countAuditEvents()) - before }).toEqual({
      exitCode: 1,
      out: "",
      changes: 0,
    });
    return err;
  };

  it.each([
    [
      "an unknown key",
      "set: a\nwatch: []\n",
      "fleet.yaml:2:1: watch is not a known key: they are set, configs,",
    ],
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
    [
      "a query with a fault",
      "set: a\nwatches: [{name: a, filter: 'stat:x'}]\n",
      "watches.0.filter There is no stat:",
    ],
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
    [
      "a config that is not there",
      "set: a\nconfigs: [{name: a, file: a.yml}]\n",
      "configs.0.file cannot be read",
    ],
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
  ])(
    "are refused with %s, by file, path and remedy, before anything is changed",
    async (_, content, message) => {
      expect(await refused({ "fleet.yaml": content })).toContain(message);
    },
  );

  it("must be UTF-8, as another encoding would change paths of the hosts", async () => {
    const { dir, write, content } = createFiles();
    const latin = Buffer.from(
      `${testConfigYaml(801)}sources: [{type: file, include: [/var/log/m\u00fcller/*.log]}]\n`,
      "latin1",
    );
    write("fleet.yaml", content);
    writeFileSync(join(dir, "configs/web.yaml"), latin);
    expect((await admin.run("plan", dir)).err).toContain("configs.0.file is not UTF-8 text");
    writeFileSync(join(dir, "latin.yaml"), latin);
    expect((await admin.run("plan", dir)).err).toContain("latin.yaml: is not UTF-8 text");
  });

  it("may be JSON of more than 256 KiB, for a large inventory", async () => {
    const { set, dir, write } = createFiles();
    const inventory = Array.from({ length: 8000 }, (_, index) => ({
      name: `host-${index}.example.com`,
      owner: "shop",
    }));
    write("fleet.yaml", { set });
    write("hosts.json", JSON.stringify({ inventory }));
    const { exitCode, steps } = await run("plan", dir);
    expect([exitCode, steps]).toMatchObject([2, [{ kind: "inventory", host_count: 8000 }]]);
    write(
      "hosts.json",
      JSON.stringify({ inventory: [...inventory, { name: "host-7.example.com" }] }),
    );
    expect((await admin.run("plan", dir)).err).toContain(
      "hosts.json: inventory.8000.name is the name of another one",
    );
    write("hosts.json", `${JSON.stringify({ inventory })}}`);
    expect((await admin.run("plan", dir)).err).toContain("hosts.json: is not well-formed JSON");
  });

  it("never show a secret that stands where it must not", async () => {
    const watch = {
      name: "a",
      filter: "",
      receivers: [{ url: "https://hook.test", secret: receiverSecret }],
    };
    const err = await refused({ "fleet.yaml": { set: "a", watches: [watch] } });
    expect(err).toContain("watches.0.receivers.0");
    expect(err).not.toContain(receiverSecret);
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
    expect((await admin.run("plan", dir)).err).toContain(
      "policies.0.max_enrollments is another value in core",
    );
    await admin.run`policies freeze ${`${set} policy`} --yes`;
    write("fleet.yaml", { set, policies: content.policies });
    expect(await admin.run("plan", dir)).toEqual(failsWith(1, "write frozen: true"));
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
    await test.signIn("auditor");
    expect(await run("plan", dir)).toEqual(failsWith(2, "has not checked the configs"));
    const before = await countAuditEvents();
    expect(await run("apply", dir)).toEqual(failsWith(1, "needs the scope admin"));
    expect(await countAuditEvents()).toBe(before);
  });

  it("2 of a plan is a difference and no mistake", async () => {
    expect(await admin.run("plan")).toMatchObject({ exitCode: 1 });
    expect(await admin.run`plan x -o xml`).toMatchObject({ exitCode: 1 });
    expect(await admin.run("plan", join(test.home, "none"))).toMatchObject({ exitCode: 1 });
    const empty = mkdtempSync(join(test.home, "empty-"));
    expect((await admin.run("plan", empty)).err).toContain("has no file whose name ends in .yaml");
    const { dir } = createFiles();
    const nowhere = createAdminUser({ env: { SVC_ADMIN_TOKEN_FILE: test.tokenFile } });
    expect(await nowhere.run("plan", dir)).toEqual(failsWith(1, "name the fleet"));
  });
});
