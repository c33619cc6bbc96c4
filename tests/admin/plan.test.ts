import { beforeEach, describe, expect, it } from "vitest";
import { applyLeaseMs } from "#proto/applied-set/applied-set.ts";
import type { ConfigList } from "#proto/fleet-health/config-report.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import { createTestToken } from "../support/collector.ts";
import { testConfigYaml } from "../support/rollout.ts";
import { failsWith } from "./support/admin.ts";
import { createPlanTest } from "./support/plan.ts";

const test = await createPlanTest();
const {
  core,
  admin,
  hooks,
  clock,
  one,
  two,
  createFiles,
  run,
  countAuditEvents,
  watchNamed,
  contentOf,
} = test;
type Files = ReturnType<typeof createFiles>;
const apply = async (dir: string, ...args: string[]) =>
  expect(await run("apply", dir, ...args)).toMatchObject({ exitCode: 0 });
const expectNoDifference = async (dir: string, ...args: string[]) =>
  expect(await run("plan", dir, ...args)).toMatchObject({ exitCode: 0, steps: [] });
/** What the set made goes with its content. */
const expectPruned = async ({ set, dir, write }: Pick<Files, "set" | "dir" | "write">) => {
  write("fleet.yaml", { set });
  await apply(dir, "--prune");
  expect(await watchNamed(`${set} stale`)).toBeUndefined();
};
beforeEach(async () => {
  hooks.before = () => undefined;
  await test.signIn("admin");
});

describe("svc-admin plan and apply", () => {
  it("plan without a change, apply in the order of references, and then differ in nothing", async () => {
    const { set, dir } = createFiles();
    const before = await countAuditEvents();
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
    expect(await countAuditEvents()).toBe(before);
    expect(await admin.run("apply", dir)).toEqual(failsWith(2, "add --yes"));
    expect(await countAuditEvents()).toBe(before);
    const applied = await run("apply", dir);
    expect({ ...applied, outcomes: applied.steps.map(({ outcome }) => outcome) }).toMatchObject({
      exitCode: 0,
      brief: planned.brief,
      outcomes: Array(6).fill("done"),
    });
    const after = await countAuditEvents();
    await expectNoDifference(dir);
    expect(await run("apply", dir)).toMatchObject({
      exitCode: 0,
      steps: [],
      err: `${set}: no difference\n`,
    });
    expect(await countAuditEvents()).toBe(after);
    expect(await contentOf(set)).toMatchObject({
      complete: true,
      policies: [{ name: `${set} policy`, made: true }],
      watches: [
        { name: `${set} silent` },
        { name: `${set} stale`, more_than: 5, for_seconds: 300, made: true },
      ],
      inventory: { made: true },
      assignments: [{ made: true, identity_ids: [one.identityId, two.identityId].toSorted() }],
    });
  });

  it("tell what somebody changed by hand from what the files change, and undo it", async () => {
    const { set, dir, write, content } = createFiles();
    await apply(dir);
    const watch = await watchNamed(`${set} stale`);
    const other = await core.admin.post("/v1/collector/configs", { yaml: testConfigYaml(900) });
    const change = {
      name: `${set} stale`,
      filter: "state:stale",
      more_than: 99,
      receivers: [],
      revision: watch?.revision,
    };
    await core.admin.put(`/v1/collector/watches/${watch?.id}`, change);
    const desired = `/v1/collector/identities/${one.identityId}/desired-config`;
    await core.admin.put(desired, { config_id: other.body.id });
    await core.admin.put("/v1/collector/inventory", { hosts: [{ name: "web-1" }] });
    const silent = await watchNamed(`${set} silent`);
    await core.admin.delete(`/v1/collector/watches/${silent?.id}`);
    const [stale, ...others] = content.watches;
    write("fleet.yaml", { ...content, watches: [{ ...stale, for_seconds: 900 }, ...others] });

    const { exitCode, steps, err, brief } = await run("plan", dir);
    expect([exitCode, brief]).toEqual([
      2,
      [
        "change watch drift",
        "create watch drift",
        "change inventory drift",
        "assign assignment drift",
      ],
    ]);
    expect(err).toContain(
      "4 changes, 4 of them to undo what somebody changed since the last apply",
    );
    expect(steps[0]?.fields).toEqual([
      { field: "more_than", from: 99, to: 5, drift: true },
      { field: "for_seconds", from: 300, to: 900, drift: false },
      { field: "receivers", from: [], to: ["on-call"], drift: true },
    ]);
    expect(steps[3]).toMatchObject({ host_count: 1 });
    const table = (await admin.run("plan", dir)).out;
    expect(table).toMatch(
      /change +watch +set-\d+ stale +yes +more_than 99 -> 5 \(drift\); for_seconds 300 -> 900;/,
    );
    expect(table).toMatch(/change +inventory +inventory +yes +1 changed: web-1; 1 added: web-9/);
    await apply(dir);
    expect(await watchNamed(`${set} stale`)).toMatchObject({
      more_than: 5,
      for_seconds: 900,
      receivers: ["on-call"],
    });
    await expectNoDifference(dir);
  });

  it("delete with --prune what apply made and no file has any more, and nothing else", async () => {
    const { set, dir, write, content } = createFiles();
    const foreign = { name: `${set} found`, filter: "state:stale", for_seconds: 60 };
    await core.admin.post("/v1/collector/watches", foreign);
    await core.admin.put("/v1/collector/inventory?allow_empty=true", { hosts: [] });
    const remade = `${set} silent`;
    write("configs/other.yaml", testConfigYaml(902));
    const configs = [{ name: "other", file: "configs/other.yaml" }];
    const assignments = [
      { config: content.configs[0]?.name, query: "device:web-1" },
      { config: "other", query: "device:web-2" },
    ];
    write("fleet.yaml", { ...content, assignments });
    write("more.json", JSON.stringify({ configs, watches: [foreign] }));
    await apply(dir);
    const silent = await watchNamed(remade);
    await core.admin.delete(`/v1/collector/watches/${silent?.id}`);
    await core.admin.post("/v1/collector/watches", { name: remade, filter: "state:enrolling" });

    const query = `q=${encodeURIComponent(content.configs[0]?.name ?? "")}`;
    const found = await core.auditor.get<ConfigList>(`/v1/collector/configs?${query}`);
    const [theirs] = found.body.items;
    const desired = `/v1/collector/identities/${two.identityId}/desired-config`;
    await core.admin.put(desired, { config_id: theirs?.id });

    write("more.json", "{}");
    write("fleet.yaml", { set });
    const kept = await run("plan", dir);
    expect(kept).toEqual(failsWith(0, "kept that no file has any more"));
    expect(new Set(kept.steps.map(({ action }) => action))).toEqual(new Set(["keep"]));
    await apply(dir);
    expect(await watchNamed(`${set} stale`)).toBeDefined();

    const planned = await run("plan", dir, "--prune");
    expect([planned.exitCode, planned.brief]).toEqual([
      2,
      ["clear assignment", "delete inventory", "delete watch", "freeze policy"],
    ]);
    expect(await run("apply", dir, "--prune")).toMatchObject({ exitCode: 0, brief: planned.brief });
    expect(await watchNamed(`${set} stale`)).toBeUndefined();
    for (const name of [foreign.name, remade]) expect(await watchNamed(name)).toBeDefined();
    await expectNoDifference(dir, "--prune");
    const hashOf = async ({ identityId }: typeof one) => {
      const { body } = await core.auditor.get<FleetHealthDetail>(
        `/v1/collector/health/${identityId}`,
      );
      return body.item.config.desired_config_hash;
    };
    expect([await hashOf(one), await hashOf(two)]).toEqual([null, theirs?.config_hash]);
    expect(await contentOf(set)).toEqual({
      complete: true,
      policies: [],
      watches: [],
      inventory: null,
      assignments: [],
    });
  });
});

const inventory = "/v1/collector/inventory";
let isCutOff = false;

it.each([
  {
    how: "when somebody changes what it read",
    code: "inventory_changed",
    meanwhile: async (method: string, path: string) => {
      const body = { hosts: [{ name: crypto.randomUUID() }] };
      if (method === "PUT" && path === inventory) await core.admin.put(inventory, body);
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
])(
  "an apply that ends in the middle says what was and was not done, and the next one continues, $how",
  async ({ code, meanwhile }) => {
    const { set, dir, write } = createFiles();
    isCutOff = false;
    hooks.before = meanwhile;
    const { exitCode, steps, err } = await run("apply", dir);
    expect({ exitCode, outcomes: steps.map(({ outcome }) => outcome) }).toEqual({
      exitCode: 5,
      outcomes: ["done", "done", "done", "done", "not done", "not done"],
    });
    expect(err).toContain(`code ${code}`);
    expect(err).toContain("4 of 6 changes were made: apply again to continue");

    hooks.before = () => undefined;
    if (isCutOff) {
      expect(await run("apply", dir)).toEqual(failsWith(1, "code apply_in_progress"));
      await clock.advance(applyLeaseMs);
    }
    expect(await run("apply", dir)).toMatchObject({
      exitCode: 0,
      brief: ["change inventory", "assign assignment"],
    });
    await expectNoDifference(dir);
    await expectPruned({ set, dir, write });
  },
);

it("what an apply made by a request without an answer is of its set all the same", async () => {
  const { set, dir, write, content } = createFiles();
  hooks.before = async (method, path) => {
    if (method !== "POST" || path !== "/v1/collector/watches") return;
    hooks.before = () => undefined;
    await core.admin.post(path, content.watches[0]);
    throw new TypeError("the answer is lost");
  };
  expect(await run("apply", dir)).toEqual(failsWith(5, "code unreachable"));
  await clock.advance(applyLeaseMs);
  await apply(dir);
  await expectPruned({ set, dir, write });
});

it("an apply changes nothing when another one of the set began since it read", async () => {
  const { set, dir } = createFiles();
  hooks.before = async (method, path) => {
    if (method !== "PUT" || !path.includes("/applied-sets/")) return;
    const content = { complete: true, policies: [], watches: [], inventory: null, assignments: [] };
    await core.admin.put(path, { revision: 0, content });
  };
  expect(await run("apply", dir)).toEqual(failsWith(1, "code conflict"));
  expect(await watchNamed(`${set} stale`)).toBeUndefined();
});

it("an apply changes nothing while another one of the set runs, which ends as if it were alone", async () => {
  const { dir } = createFiles();
  const second = Promise.withResolvers<Awaited<ReturnType<typeof run>>>();
  hooks.before = async (method, path) => {
    if (method !== "PUT" || path !== "/v1/collector/inventory") return;
    hooks.before = () => undefined;
    second.resolve(await run("apply", dir));
  };
  await apply(dir);
  const err = expect.stringContaining("code apply_in_progress");
  expect(await second.promise).toMatchObject({ exitCode: 1, err, steps: [] });
  await expectNoDifference(dir);
});

it("an apply that was suspended while another one ran makes no further change", async () => {
  const { dir } = createFiles();
  let isBegun = false;
  hooks.before = async (method, path) => {
    isBegun ||= method === "PUT" && path.includes("/applied-sets/");
    if (!isBegun || method !== "POST") return;
    hooks.before = () => undefined;
    await clock.advance(applyLeaseMs);
    await apply(dir);
  };
  const suspended = await run("apply", dir);
  expect(suspended).toEqual(failsWith(5, "code conflict"));
  expect(suspended.err).toContain("1 of 6 changes were made");
  await expectNoDifference(dir);
});

it("a host of a rollout that has not ended is left to it", async () => {
  const { dir, write, content } = createFiles();
  const config = await core.admin.post("/v1/collector/configs", { yaml: testConfigYaml(901) });
  const rollout = await admin.json`rollouts create ${String(config.body.id)} device:web-1 --yes`;
  const message = `assignments.0.query finds hosts of the rollout ${rollout.id}, which has not ended: wait, or abort it`;
  expect(await admin.run("plan", dir)).toEqual(failsWith(1, message));
  write("fleet.yaml", { ...content, assignments: [] });
  expect(await run("plan", dir)).toMatchObject({ exitCode: 2 });
  await core.admin.post(`/v1/collector/rollouts/${rollout.id}/abort`);
});

it("a config of OpenTelemetry agents is checked, published and assigned to these alone", async () => {
  const { set, dir, write } = createFiles();
  const { enroll } = await createTestToken(core);
  const gateway = await enroll("gateway-1", "ed25519", "otelcol");
  const name = `${set} gateways`;
  const files = (query: string) => ({
    set,
    configs: [{ name, file: "configs/gateway.yaml", kind: "otelcol" }],
    assignments: [{ config: name, query }],
  });
  const yaml = `receivers: {otlp: {protocols: {grpc: {}}}}
exporters: {otlp: {endpoint: "backend.example.test:4317"}}
service: {pipelines: {logs: {receivers: [otlp], exporters: [otlp]}}}
`;
  write("configs/gateway.yaml", yaml.replace("exporters: [otlp]", "exporters: [zipkin]"));
  write("fleet.yaml", files("agent:otelcol"));
  expect(await run("plan", dir)).toEqual(failsWith(1, "configs/gateway.yaml:3:"));
  write("configs/gateway.yaml", yaml);
  write("fleet.yaml", files("device:web-1,gateway-1"));
  expect(await run("plan", dir)).toEqual(
    failsWith(1, `finds hosts that are no otelcol: add agent:otelcol: ${one.identity}`),
  );
  write("fleet.yaml", files("agent:otelcol"));
  const planned = await run("plan", dir);
  expect(planned).toMatchObject({ exitCode: 2, brief: ["publish config", "assign assignment"] });
  expect(planned.steps[0]?.fields[0]).toMatchObject({ field: "kind", to: "otelcol" });
  await apply(dir);
  await expectNoDifference(dir);
  const detail = `/v1/collector/health/${gateway.identityId}`;
  const { item } = (await core.auditor.get<FleetHealthDetail>(detail)).body;
  expect(item.config.desired_config_hash).toBe(planned.steps[0]?.fields[1]?.to);
  write("fleet.yaml", { set });
  await apply(dir, "--prune");
});
