import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { adminCommands } from "#admin/commands/index.ts";
import { createTestToken, identityPrefix } from "../support/collector.ts";
import { isSlow } from "../support/is-slow.ts";
import { publishTestConfig, testConfigYaml } from "../support/rollout.ts";
import { startTestAdmin } from "./support/admin.ts";

const SVC_WATCH_RECEIVERS = `{web_url: "https://fleet.test", receivers: [{kind: webhook, name: hook, url: "https://hook.test", secret: "whsec_${"A".repeat(32)}"}]}`;
const { web, home, adminAt } = await startTestAdmin({ core: { env: { SVC_WATCH_RECEIVERS } } });
const admin = adminAt();

const { enroll } = await createTestToken(web.core);
const hostIds: string[] = [];
for (const name of ["out-1", "out-2", "out-3", "out-4", "out-5"])
  hostIds.push((await enroll(name)).identityId);
const configId = await publishTestConfig(web.core);

describe("a name in the place of an id", () => {
  const twins: string[] = [];
  beforeAll(async () => {
    await admin.run`policies create blue --prefix ${identityPrefix}`;
    const out = join(home, "rack");
    await admin.run`tokens create --policy blue --description ${"rack 4"} --out ${out}`;
    const file = join(home, "named.yaml");
    for (const [index, name] of ["v7", "twin", "twin"].entries()) {
      writeFileSync(file, testConfigYaml(300 + index));
      const { id } = await admin.json`configs publish ${file} --name ${name}`;
      if (name === "twin") twins.push(id);
    }
  });

  it.each([
    ["policies show blue", "blue"],
    ["tokens list --policy blue", "svcbt_"],
    ["fleet show out-2", "out-2"],
    [`identities show ${identityPrefix}out-2`, "out-2"],
    ["certificates list out-2", "serial"],
    ["configs show v7", "max_disk_usage_mb: 300"],
    ["configs preview v7 out-2", "(v7) for 1 host"],
  ])("svc-admin %s", async (line, text) => {
    const { exitCode, out, err } = await admin.run(...line.split(" "));
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
    expect(out).toContain(text);
  });

  it("finds a token by its description or prefix, and a rollout by its config", async () => {
    const [token] = await admin.json`tokens list --policy blue`;
    expect(await admin.run`tokens revoke ${"rack 4"}`).toMatchObject({
      exitCode: 2,
      err: /token.*rack 4/i,
    });
    await admin.must`tokens revoke ${token.token_prefix} --yes`;
    await admin.must`rollouts create v7 device:out-3 --yes`;
    expect((await admin.run`rollouts list --config v7`).out).toContain("v7");
    await admin.must`rollouts abort v7 --yes`;
  });

  it("lists the candidates of a name that several have, and ends with 2", async () => {
    const { exitCode, out, err } = await admin.run`configs assign twin out-1 --yes`;
    expect({ exitCode, out }).toEqual({ exitCode: 2, out: "" });
    expect(err).toContain("2 configs are named twin: give the id of one");
    for (const id of twins) expect(err).toContain(`  ${id}  twin `);
  });

  it.each([
    ["policies show nobody", "svc-admin policies list"],
    ["tokens revoke nobody --yes", "svc-admin tokens list"],
    ["identities revoke nobody --yes", "svc-admin fleet list"],
    ["configs show nobody", "svc-admin configs list"],
    ["rollouts pause nobody", "svc-admin rollouts list"],
    ["watches test nobody", "svc-admin watches list"],
    ["certificates revoke nobody --yes", "svc-admin certificates list"],
    ["sessions revoke nobody", "svc-admin sessions list"],
  ])("svc-admin %s ends with 2, and names the list", async (line, list) => {
    const result = await admin.run(...line.split(" "));
    expect(result).toMatchObject({ exitCode: 2, out: "", err: expect.stringContaining(list) });
  });
});

it.each([
  ["configs", "assign", configId],
  ["configs", "rollback"],
  ["rollouts", "create", configId],
])("a change of every host %s %s needs --all", async (...command) => {
  for (const query of [[], [""], ['""'], [" "]])
    expect(await admin.run(...command, ...query, "--yes")).toMatchObject({
      exitCode: 2,
      out: "",
      err: expect.stringContaining("add --all"),
    });
  expect(await admin.run(...command, "out-1", "--all", "--yes")).toMatchObject({
    exitCode: 2,
    out: "",
  });
  const asked = await admin.run(...command, "--all");
  expect(asked.err).toMatch(/ 5 hosts|no host has a config/);
  expect(asked.exitCode).not.toBe(0);
});

describe("the bundle that ships", () => {
  const file = join(home, "published.yaml");
  /** A command line for each command that prints records; the others follow. */
  const lines = {
    whoami: "",
    system: "",
    "system calendar": "",
    "system trust": "",
    volume: "--by kind",
    "sessions list": "--everyone",
    "directory status": "",
    "audit list": "",
    "audit verify": "",
    "policies list": "",
    "policies show": "printed",
    "policies create": "",
    "policies freeze": "frozen --yes",
    "simulate enroll": "--policy printed --device-id x --address 10.1.2.3 --platform linux/amd64",
    "tokens list": "",
    "tokens create": `--policy printed --out ${file}.token`,
    "tokens revoke": "printed-token --yes",
    "fleet list": "",
    "fleet ahead": "",
    "fleet changes": "",
    "fleet show": "out-1",
    "fleet compare": "out-1 --since 1h",
    "identities list": "",
    "identities show": "out-1",
    "identities revoke": "out-5 --yes",
    "certificates list": "out-1",
    "queues list": "out-1",
    "certificates revoke": "",
    "inventory put": `${file}.csv --yes`,
    "inventory list": "",
    "inventory diff": `${file}.new.csv`,
    "budgets list": "",
    "budgets set": "printed device:out-5 --bytes 1GiB",
    "configs list": "",
    "configs show": "printed",
    "configs publish": `${file} --dry-run`,
    "configs preview": "printed out-2",
    "configs assign": "printed out-2 --yes",
    "configs rollback": "out-2 --to previous --yes",
    "rollouts list": "",
    "rollouts show": "printed",
    "rollouts create": "",
    "rollouts targets": "printed",
    "rollouts pause": "printed",
    "rollouts watch": "printed --stop-at-pause",
    "rollouts resume": "printed",
    "rollouts abort": "printed --yes",
    "rollouts roll-back": "printed --yes",
    "watches list": "",
    "watches show": "printed",
    "watches create": "",
    "watches test": "printed",
    "watches update": "printed --more-than 7",
    "watches silence": "printed --for 1h",
  };
  /** Commands that print no records, or that this test cannot repeat. */
  const others = [
    "login",
    "init",
    "logout",
    "sessions revoke",
    "configs diff",
    "telemetry read",
    "hosts diag",
    "hosts renew",
    "hosts report",
    "hosts restart",
    "watches delete",
    "plan",
    "apply",
    "budgets delete",
    "completeness",
    "completeness statement",
    "queues close",
    "completion",
  ];

  beforeAll(async () => {
    writeFileSync(file, testConfigYaml(900));
    writeFileSync(`${file}.csv`, "name\nout-1\n");
    writeFileSync(`${file}.new.csv`, "name\nout-1\nout-9\n");
    await admin.run`policies create printed --prefix ${identityPrefix}`;
    await admin.run`policies create frozen --prefix ${identityPrefix}`;
    await admin.run`configs publish ${file} --name printed`;
    await admin.run`rollouts create printed device:out-4 --yes`;
    await admin.run`watches create printed state:stale --receiver hook`;
    await admin.run`tokens create --policy frozen --description printed-token --out ${file}.old`;
    expect(readFileSync(`${file}.old`, "utf8")).toMatch(/^svcbt_/);
  });

  it("V6: has a command line here for every command", () => {
    const known = adminCommands.map(({ path }) => path.replace(/ [<[].*/, ""));
    expect([...known, "completion"].toSorted()).toEqual(
      [...Object.keys(lines), ...others].toSorted(),
    );
  });

  it.each(Object.entries(lines))("V6: svc-admin %s prints every form", async (command, line) => {
    for (const format of isSlow ? ["json", "yaml", "csv", "table"] : ["json", "csv"]) {
      const args = [...command.split(" "), ...line.split(" ").filter((word) => word !== "")];
      const fresh = `printed ${crypto.randomUUID()}`;
      if (command === "policies create") args.push(fresh, "--prefix", identityPrefix);
      if (command === "watches create") args.push(fresh, "state:stale");
      if (command === "rollouts create") args.push(configId, "device:out-3", "--yes");
      if (command === "certificates revoke") {
        const [{ id }] = await admin.json`certificates list out-4`;
        args.push(id, "--yes");
      }
      const { exitCode, out, err } = await admin.run(...args, "-o", format);
      expect({ args, exitCode, err, out }).toMatchObject({
        exitCode: expect.toBeOneOf([0, 1, 5]),
        out: expect.stringMatching(/./),
      });
      expect(err).not.toMatch(/^ +at /m);
      if (format === "json") expect(JSON.parse(out)).toBeTypeOf("object");
      if (format === "yaml") expect(parse(out)).toBeTypeOf("object");
      if (format === "csv") expect(out).toMatch(/\r\n$/);
      if (command !== "rollouts create") continue;
      const [made] = await admin.json`rollouts list --config ${configId} --state running`;
      await admin.run`rollouts abort ${made.id} --yes`;
    }
  });
});
