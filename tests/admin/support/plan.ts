import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { sql } from "drizzle-orm";
import { stringify } from "yaml";
import type { AppliedSet } from "#proto/applied-set/applied-set.ts";
import type { Watch } from "#proto/watch/watch.ts";
import { createTestToken, identityPrefix } from "#tests/support/collector.ts";
import { testConfigYaml } from "#tests/support/rollout.ts";
import { startTestAdmin } from "./admin.ts";

/** The secret of the receiver that core is configured with. */
export const receiverSecret = `whsec_${btoa("a secret of 24 bytes at least")}`;

const receivers = `web_url: https://fleet.test
receivers: [{kind: webhook, name: on-call, url: 'https://hook.test', secret: '${receiverSecret}'}]`;

/** A step of a plan as `-o json` prints it. */
interface PlannedStep {
  action: string;
  kind: string;
  name: string;
  drift: boolean;
  fields: { field: string; from: unknown; to: unknown; drift: boolean }[];
  host_count: number;
  outcome?: string;
}

/** Starts web and core with two hosts of `env: prod`, and an admin with directories of files. */
export const createPlanTest = async () => {
  const { web, adminAt, ...test } = await startTestAdmin({
    core: { env: { SVC_WATCH_RECEIVERS: receivers } },
  });
  const { core, clock } = web;
  /** Runs before each request of svc-admin, which is not sent if it throws. */
  const hooks: { before: (method: string, path: string) => Promise<void> | void } = {
    before: () => undefined,
  };
  const admin = adminAt({
    clock,
    fetch: async (input, init) => {
      const { method, url } = input as Request;
      await hooks.before(method, new URL(url).pathname);
      return fetch(input, init);
    },
  });
  const { enroll } = await createTestToken(core, { labels: { env: "prod" } });
  const one = await enroll("web-1");
  const two = await enroll("web-2");
  let sets = 0;
  return {
    ...test,
    core,
    admin,
    hooks,
    clock,
    one,
    two,
    /** Writes the files of a repository, whose set and names are those of no other one. */
    createFiles: () => {
      const set = `set-${++sets}`;
      const dir = mkdtempSync(join(test.home, "fleet-"));
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
    },
    run: async (command: "plan" | "apply", dir: string, ...args: string[]) => {
      const { exitCode, out, err } = await admin.run(command, dir, ...args, "-o", "json", "--yes");
      const steps = out === "" ? [] : (JSON.parse(out).steps as PlannedStep[]);
      const brief = steps.map(
        ({ action, kind, drift }) => `${action} ${kind}${drift ? " drift" : ""}`,
      );
      return { exitCode, err, steps, brief };
    },
    countAuditEvents: async () =>
      Number(
        (await core.db.execute<{ n: number }>(sql`select count(*)::int as n from audit_event`))[0]
          ?.n,
      ),
    watchNamed: async (name: string) => {
      const path = "/v1/collector/watches?limit=1000";
      const { body } = await core.auditor.get<{ items: Watch[] }>(path);
      return body.items.find((watch) => watch.name === name);
    },
    contentOf: async (set: string) =>
      (await core.auditor.read<AppliedSet>(`/v1/collector/applied-sets/${set}`)).content,
  };
};
