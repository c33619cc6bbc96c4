import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { joinCredentials } from "#collector/identity/credentials.ts";
import { createSentAt, postSigned } from "#collector/management/signed-request.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { SystemReport } from "#proto/system/report.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { createTestLab } from "../support/deployment/lab.ts";

/* Cores as processes whose files of CA bundles change. */

const lab = await createTestLab();
const at = (name: string) => join(lab.dir, name);
const put = (contents: string) => {
  writeFileSync(at("new.pem"), contents, { mode: 0o644 });
  renameSync(at("new.pem"), at("bundle.pem"));
};
const old = readFileSync(lab.pki.serverCaFile, "utf8");
const next = (await createTestCa({ name: "Next server CA" })).pem;
const bundles = () =>
  lab.sql<{ channel: string; number: number; pem: string }[]>`
    select channel, number, pem from ca_bundle order by channel, number`;

it("publish what their file has once, name a file that they refuse, and give hosts the newest", async () => {
  put(old);
  const env = {
    SVC_INGEST_CA_BUNDLE_FILE: at("bundle.pem"),
    SVC_MANAGEMENT_CA_BUNDLE_FILE: at("bundle.pem"),
    SVC_OPS_BEARER_TOKEN: "tok_ops",
  };
  const [core, other] = await Promise.all([lab.startCore(env), lab.startCore(env)]);
  await expect.poll(bundles).toMatchObject([
    { channel: "ingest", number: 1, pem: old },
    { channel: "management", number: 1, pem: old },
  ]);

  const host = lab.createHost("host", await lab.startEdge(core), core);
  await lab.writeToken(core);
  await host.enroll();
  const credentials = joinCredentials(
    readFileSync(join(host.configDir, "identity/current/tls.crt"), "utf8"),
    readFileSync(join(host.configDir, "identity/current/tls.key"), "utf8"),
  );
  const sentAt = createSentAt(at("sent"), { clock: systemClock, entropy: systemEntropy });
  const transport = {
    baseUrl: `https://localhost:${other.ingestPort}`,
    caPem: old,
    serverName: undefined,
    timeoutMs: 10_000,
  };
  const fetchBundle = async () => {
    const fields = { channel: "ingest" };
    const caller = { credentials, sentAt };
    const path = "/v1/collector/ca-bundle";
    return JSON.parse((await postSigned(transport, "ca_bundle", path, caller, fields)).text).bundle;
  };
  expect(await fetchBundle()).toMatchObject({ number: 1, pem: old });

  // The ingest listener's certificate is one of the old authority.
  put(next);
  const fault = "SVC_INGEST_CA_BUNDLE_FILE: does not verify the certificate of the ingest listener";
  const detail = `The newest is invalid, so the older one is in use: ${fault}.`;
  const headers = { Authorization: "Bearer tok_ops" };
  for (const each of [core, other]) {
    each.program.child.kill("SIGHUP");
    await expect
      .poll(async () => (await fetch(`${each.url}/readyz`, { headers })).text())
      .toContain(detail);
  }
  const partsOf = async () => (await core.api<SystemReport>("auditor", "GET", "/v1/system")).parts;
  await expect
    .poll(partsOf)
    .toContainEqual(expect.objectContaining({ name: "ingest_ca_bundle_file", detail }));
  expect((await bundles()).filter(({ channel }) => channel === "ingest")).toHaveLength(1);

  put(old + next);
  await expect
    .poll(async () => (await bundles()).map(({ channel, number }) => `${channel} ${number}`))
    .toEqual(["ingest 1", "ingest 2", "management 1", "management 2", "management 3"]);
  expect(await fetchBundle()).toMatchObject({ number: 2, pem: old + next });
});
