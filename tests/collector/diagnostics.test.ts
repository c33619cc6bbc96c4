import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { bridgeTokenOf } from "#scripts/lab/operator-api.ts";
import { createTestLab, labSecret } from "../support/deployment/lab.ts";
import { eventually } from "../support/eventually.ts";

/* A host on one core, and an admin on another, with the real programs: what only the database carries from one to the other. */
const { dir, sql, startCore, startEdge, writeToken, createHost } = await createTestLab();
const interval = { SVC_HEARTBEAT_INTERVAL: "12s" };
const [admins, hosts] = await Promise.all([startCore(interval), startCore(interval)]);
const host = createHost("host-1", await startEdge(hosts), hosts);
afterAll(() => host.stop());

await writeToken(admins);
await host.enroll();
// The OTLP source of a new config listens on a fixed port, which another test's collector may have.
await host.tail();
host.start();
const hostId = await eventually(async () => {
  const [found] = await sql`select identity_id as id from collector_health`;
  if (found === undefined) throw new Error(host.program()?.stderr);
  return found.id;
});

/** Requests the diagnostics, and returns the bundle once it has arrived. */
const fetchDiagnostics = async () => {
  const path = `/v1/collector/hosts/${hostId}/diags`;
  // A core whose sessions have just ended answers 503 for a moment.
  const { id } = await eventually(() => admins.api<{ id: string }>("admin", "POST", path, {}));
  const authorization = `Bearer ${await bridgeTokenOf(labSecret, "admin")}`;
  return eventually(async () => {
    const answer = await fetch(`${admins.url}${path}/${id}/bundle`, { headers: { authorization } });
    expect(answer.status).toBe(200);
    return answer.text();
  });
};

it("come from a host on another core before its next heartbeat, without key, token and paths", async () => {
  const lastHeartbeat = () => sql`select last_heartbeat_at as at from fleet_status`;
  // Once more if a heartbeat came meanwhile.
  const bundle = await eventually(async () => {
    const before = await lastHeartbeat();
    const fetched = await fetchDiagnostics();
    expect(await lastHeartbeat()).toEqual(before);
    return fetched;
  });
  expect(JSON.parse(bundle)).toMatchObject({
    validation: { ok: true },
    running: { identity: host.identity },
  });
  const key = await readFile(join(host.configDir, "identity", "current", "tls.key"), "utf8");
  for (const hidden of [key.split("\n")[1] ?? key, "PRIVATE KEY", "svcbt_", "tls.key", dir])
    expect(bundle).not.toContain(hidden);
});
