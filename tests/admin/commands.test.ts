import {
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createCoreReporter } from "#functions/ops/report-core.ts";
import { insertCaBundle } from "#functions/store/system/ca-bundles.ts";
import { dayMs, systemClock } from "#kit/clock.ts";
import { enrollTestCollector, identityPrefix } from "../support/collector.ts";
import { failsWith, startTestAdmin } from "./support/admin.ts";

const { web, home, adminAt } = await startTestAdmin();
/** An admin in a script: nobody answers questions. */
const script = adminAt();
/** An admin who answers no. */
const doubtful = adminAt({ isInteractive: true, ask: async () => "n" });

const { json } = script;
const policy =
  await json`policies create ${"web servers"} --prefix ${identityPrefix} --certificate-ttl
      2d`;
const yaml = `forwarder:
  endpoint: core.example.net:8443
  mtls: { cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem }
buffer: { dir: data }
`;
const publish = async (text: string) => {
  const file = join(home, "collector.yaml");
  writeFileSync(file, text);
  return json`configs publish ${file} --name ${"a config"}`;
};
const enrollHost = async (deviceId: string) => {
  const out = join(home, `${deviceId}.token`);
  await json`tokens create --policy ${policy.id} --ttl 15m --out ${out}`;
  return enrollTestCollector(web.core, { token: readFileSync(out, "utf8").trim(), deviceId });
};

describe("policies and tokens", () => {
  it("are created, listed and shown", async () => {
    expect(policy).toMatchObject({ name: "web servers", certificate_ttl_seconds: 172_800 });
    expect(await json`policies show ${policy.id}`).toMatchObject({ id: policy.id });
    expect((await script.run`policies list`).out).toMatch(/^id +name +state.*\n.*web servers/);
  });

  it("E1: a token goes to a file that only its person may read, or to stdout when asked, and nowhere else", async () => {
    const out = join(home, "host.token");
    const made = await script.run`tokens create --policy ${policy.id} --out ${out}`;
    const token = readFileSync(out, "utf8").trim();
    expect(token).toMatch(/^svcbt_/);
    expect(statSync(out).mode & 0o777).toBe(0o600);
    expect(made.out + made.err).not.toContain(token);
    expect((await script.run`tokens create --policy ${policy.id} --show`).out).toMatch(
      /^svcbt_\w+\n$/,
    );
    expect((await script.run`tokens list`).out).not.toContain(token);
    expect((await script.run`tokens create --policy ${policy.id}`).exitCode).toBe(2);
    const nowhere = join(home, "no", "such", "folder");
    const before = (await json`tokens list`).length;
    expect((await script.run`tokens create --policy ${policy.id} --out ${nowhere}`).exitCode).toBe(
      2,
    );
    expect((await json`tokens list`).length).toBe(before);
  });

  it("R6: a token replaces a planted link or open file, and is written to neither", async () => {
    const target = join(home, "target");
    const link = join(home, "link");
    writeFileSync(target, "untouched", { mode: 0o644 });
    symlinkSync(target, link);
    const open = openSync(target, "r");
    for (const out of [link, target]) {
      expect((await script.run`tokens create --policy ${policy.id} --out ${out}`).exitCode).toBe(0);
      expect(lstatSync(out).mode & 0o170777).toBe(0o100600);
      expect(readFileSync(out, "utf8")).toMatch(/^svcbt_/);
    }
    expect(readFileSync(open, "utf8")).toBe("untouched");
    closeSync(open);
  });

  it("writes no control characters of a server to stderr, and none that reorder the line", async () => {
    const fetch = async () =>
      Response.json(
        {
          type: "about:blank",
          title: "Forbidden",
          status: 403,
          code: "forbidden",
          detail: "no\u001b]0;pwned\u0007\u009b31m\u202egnp.exe\u2066",
          action: "none",
          request_id: "x",
        },
        { status: 403, headers: { "Content-Type": "application/problem+json" } },
      );
    const { err } = await adminAt({ fetch }).run`policies list`;
    expect(err).toContain("no\ufffd]0;pwned");
    expect(err).not.toMatch(/(?!\n)[\p{Cc}\p{Bidi_Control}]/u);
  });

  it("simulates an enrollment: the rule that decides, and no use of the token", async () => {
    const mac = await json`policies create macs --prefix ${identityPrefix} --platform darwin`;
    const out = join(home, "mac.token");
    await json`tokens create --policy ${mac.id} --out ${out}`;
    const simulate = (platform: string, ...more: string[]) =>
      script.run(
        ...`simulate enroll --policy ${mac.id} --device-id mac-1 --address 10.1.2.3`.split(" "),
        "--platform",
        platform,
        ...more,
      );
    const refused = await simulate("linux/amd64", "--token-file", out);
    expect(refused.exitCode).toBe(1);
    expect(refused.out).toMatch(
      /^policy_platforms +refused +the policy allows darwin, and not linux\/amd64$/m,
    );
    expect(refused.err).toContain(
      "mac-1 would be refused with platform_not_allowed by the rule policy_platforms: ",
    );
    const allowed = await simulate("darwin/arm64", "--token-file", out, "-o", "json");
    expect(allowed).toMatchObject({ exitCode: 0, err: `${identityPrefix}mac-1 may enroll.\n` });
    expect(JSON.parse(allowed.out)).toMatchObject({
      allowed: true,
      rule: null,
      identity: `${identityPrefix}mac-1`,
    });
    expect(await json`tokens list --policy ${mac.id}`).toMatchObject([{ use_count: 0 }]);
    expect((await simulate("darwin/arm64", "--token-file", join(home, "none"))).exitCode).toBe(2);
  });

  it("names what a destructive command hits, and does nothing without a yes", async () => {
    const other = await json`policies create frozen --prefix ${identityPrefix}`;
    const unanswered = await script.run`policies freeze ${other.id}`;
    expect(unanswered).toEqual(failsWith(2, "Policy frozen: none of its tokens"));
    expect(await doubtful.run`policies freeze ${other.id}`).toMatchObject({ exitCode: 1 });
    expect(await json`policies show ${other.id}`).toMatchObject({ state: "active" });
    expect(await json`policies freeze ${other.id} --yes --reason leaked`).toMatchObject({
      state: "frozen",
    });
    const [event] = await json`audit list --action enrollment_policy.freeze`;
    expect(event).toMatchObject({ reason_code: "leaked" });
  });

  it("reports every fault of a request with its path", async () => {
    const refused =
      await script.run`policies create x --prefix ${"no prefix"} --max-enrollments 1.5`;
    expect(refused.exitCode).toBe(2);
    const invalid = await script.run`policies create x --prefix ${"no prefix"}`;
    expect(invalid).toMatchObject({ exitCode: 1, out: "" });
    expect(invalid.err).toMatch(
      /allowed_identity_prefixes\.0 must .*\n {2}code validation_failed, action fix_request, request id /,
    );
  });
});

describe("hosts and configs", () => {
  it("go from a token to a revoked host", async () => {
    const { identityId, identity } = await enrollHost("web-1");
    expect((await script.run`fleet list device:web-1`).out).toContain(identity);
    expect(await json`fleet show ${identityId}`).toMatchObject({ item: { device_id: "web-1" } });
    const fault = await script.run`fleet list stat:stale`;
    expect(fault).toMatchObject({ exitCode: 2 });
    expect(fault.err).toMatch(/Did you mean state:\?[\s\S]*stat:stale\n {2}\^+/);

    const first = await publish(yaml);
    expect((await script.run`configs show ${first.id}`).out).toBe(yaml);
    const second = await publish(`${yaml}# changed\nsources: []\n`);
    const diff = await script.run("configs", "diff", first.id, second.id);
    expect(diff).toMatchObject({ exitCode: 1, out: expect.stringContaining("+sources: []") });
    expect(await script.run`configs assign ${first.id} device:web-1`).toEqual(
      failsWith(2, `for 1 host: ${identity}.`),
    );
    expect(await json`configs assign ${first.id} device:web-1 --yes`).toEqual([
      { identity, outcome: "assigned" },
    ]);
    expect((await script.run`configs assign ${first.id} device:none --yes`).exitCode).toBe(1);

    const [certificate] = await json`certificates list ${identityId}`;
    expect(certificate).toBeDefined();
    expect(await json`identities revoke ${identityId} --yes`).toMatchObject({
      id: identityId,
    });
    const gone = await script.run`configs assign ${first.id} device:web-1 --yes`;
    expect(gone).toMatchObject({ exitCode: 1, out: expect.stringContaining("revoked") });
  });

  it("rolls the hosts of a query back, after naming the configs that they get", async () => {
    const one = await enrollHost("back-1");
    const two = await enrollHost("back-2");
    const before = await publish(yaml);
    const after = await publish(`${yaml}sources: []\n`);
    await json`configs assign ${before.id} device:back-1 --yes`;
    await web.core.clock.advance(1000);
    await json`configs assign ${after.id} device:back-1,back-2 --yes`;
    const args = ["configs", "rollback", "device:back-1,back-2", "--to", "previous"];
    const asked = await doubtful.run(...args);
    expect(asked).toMatchObject({ exitCode: 1, out: "" });
    expect(asked.err).toMatch(/^2 hosts: .*back-.*, .*back-.*\.\n/);
    expect(asked.err).toContain(
      `  1 get config ${before.config_hash.slice(0, 12)} (${before.id})\n`,
    );
    expect(asked.err).toContain("  1 had no config before\n");
    expect(await json`audit list --action config.rollback`).toEqual([]);
    await web.core.clock.advance(1000);
    const done = await script.run(...args, "--yes", "--reason", "bad_rollout", "-o", "json");
    expect(done.exitCode).toBe(5);
    const rows = JSON.parse(done.out) as {
      identity: string;
      outcome: string;
      config: string | null;
    }[];
    expect(rows.toSorted((a, b) => a.identity.localeCompare(b.identity))).toEqual([
      {
        identity: one.identity,
        outcome: "rolled_back",
        config: before.id,
        hash: before.config_hash,
      },
      { identity: two.identity, outcome: "no_previous_config", config: null, hash: null },
    ]);
    const events = await json`audit list --action config.rollback`;
    expect(events).toEqual([expect.objectContaining({ reason_code: "bad_rollout" })]);
    const none = await script.run`configs rollback ${two.identityId} --yes`;
    expect(none).toEqual(failsWith(1, "nothing was changed"));
    expect((await script.run`configs rollback device:nobody --yes`).exitCode).toBe(1);
    expect((await script.run`configs rollback --yes`).exitCode).toBe(2);
  });

  it("a config is only checked with --dry-run", async () => {
    const file = join(home, "bad.yaml");
    writeFileSync(file, "forwarder: {}\n");
    expect(await script.run`configs publish ${file} --dry-run`).toMatchObject({
      exitCode: 1,
    });
    writeFileSync(file, yaml);
    const before = (await json`configs list`).length;
    expect((await script.run`configs publish ${file} --dry-run`).exitCode).toBe(0);
    expect((await json`configs list`).length).toBe(before);
    expect((await script.run`configs publish ${join(home, "none.yaml")}`).exitCode).toBe(2);
    expect(existsSync(file)).toBe(true);
  });
});

it("records shows the directory, the chain, and audit events by their filters", async () => {
  expect(await json`directory status`).toHaveProperty("counts");
  expect((await script.run`audit verify`).exitCode).toBe(0);
  const events = await json`audit list --action enrollment_policy.create --limit 2`;
  expect(events.map(({ action }: { action: string }) => action)).toEqual(
    Array(2).fill("enrollment_policy.create"),
  );
});

it("system and its calendar say what is ill or ends next, what to do, and end with 1", async () => {
  const soon = new Date(Date.now() + 5 * dayMs).toISOString();
  const chain = [{ subject: "CN=ingest.example", endsAt: soon }];
  await createCoreReporter(
    { ...web.core.core, clock: systemClock },
    {
      machine: "core-1",
      version: "1.2.3",
      checks: {
        ingest: [
          {
            name: "committer",
            find: () => ({ status: "not_ready", detail: "The last batch did not commit." }),
          },
        ],
      },
      credentials: () => [
        { name: "ingest_server", endsAt: soon, parts: chain, changedAt: null },
        { name: "scim_token", endsAt: null, parts: [], changedAt: "2026-01-02T03:04:05.000Z" },
      ],
      streams: () => null,
      clockAheadMs: () => 0,
      isStopping: () => false,
    },
  ).report();
  const { exitCode, out } = await script.run`system calendar`;
  expect(exitCode).toBe(1);
  const [head, first] = out.split("\n");
  expect(head).toMatch(/^ends +state +what +of +file written +changed by +a host that was away$/);
  expect(first).toMatch(
    new RegExp(
      `^${soon} +warning +server certificate and intermediates of ingest: CN=ingest.example +core-1 .*docs/rotate.md#server-certificate-of-ingest\\) +nothing$`,
    ),
  );
  expect(out).toMatch(/^no end +ready +token of SCIM +core-1 +2026-01-02T03:04:05.000Z /m);
  expect(out).toMatch(/^its issuer knows +ready +client secret at the identity provider +web /m);

  const system = await script.run`system`;
  expect(system.exitCode).toBe(1);
  expect(system.out).toMatch(
    /^Ingest +core-1 +Commits +not_ready +\S+ +The last batch did not commit\. +Check PostgreSQL's disk/m,
  );
});

it("system trust names the hosts without the newest roots, what they need, and ends with 1 while there is one", async () => {
  const none = await script.run`system trust`;
  expect(none.exitCode).toBe(0);
  expect(none.err).toContain("ingest: No bundle is published: SVC_INGEST_CA_BUNDLE_FILE");
  await enrollHost("without-roots");
  await insertCaBundle(web.core.db, {
    channel: "ingest",
    number: 4,
    pem: web.core.ca.pem,
    sha256: "",
    publishedAt: new Date(),
  });
  const { exitCode, out, err } = await script.run`system trust`;
  expect(exitCode).toBe(1);
  expect(out).toMatch(new RegExp(`^ingest +${identityPrefix}without-roots +none +silent$`, "m"));
  expect(err).toMatch(/^ingest: \d of \d hosts lack bundle 4: /m);
  expect(err).toMatch(/: svc-collector enroll --reenroll --ca-bundle FILE$/m);
  const [ingest] = JSON.parse((await script.run`system trust -o json`).out).channels;
  expect(ingest.bundle).toMatchObject({ number: 4, roots: [{ subject: "CN=Test CA" }] });
});
