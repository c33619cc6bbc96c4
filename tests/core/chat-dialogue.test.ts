/**
 * A dialogue with a whole core: a process on a database of its own, asked over HTTP, its answers compared with statements over the tables
 * that share no code with core, its receipts verified by `svc-server verify-receipts`.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import {
  type ChatClient,
  readReceiptKeys,
  type SendChat,
  startConversation,
} from "#scripts/lab/chat-client.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { bridgeTokenOf } from "#scripts/lab/operator-api.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { programFile } from "../support/program.ts";

/**
 * Reads how many hosts are in each state, by the tables of collectors alone. The statement reads neither `fleet_host` nor a view: it is
 * written from docs/fleet-health.md, for a fleet of `seedFleet`, whose unsupported versions it names.
 */
const readStates = async (sql: SqlClient): Promise<{ state: string; hosts: number }[]> =>
  sql.unsafe(
    `${host} select state, count(*)::int as hosts from host group by state order by state`,
  );

/** One row per enrolled host. */
const host = `with used as (
  select distinct on (identity_id) * from certificate order by identity_id, first_used_at desc nulls last, issued_at desc, id desc
), next as (
  select predecessor_id, max(not_after) as not_after from certificate
  where status = 'active' and first_used_at is null and not_after > now() group by predecessor_id
), raw as (
  select i.identity, i.device_id, i.agent, i.enrolled_at, i.id, coalesce(h.collector_version, i.collector_version) as version,
    coalesce(h.platform, i.platform) as platform, h.last_heartbeat_at as heartbeat, e.last_envelope_at as envelope,
    i.revoked_at is not null or (c.status = 'revoked' and not exists (
      select from certificate o where o.identity_id = i.id and o.status = 'active' and o.not_after > now())) as is_revoked,
    h.renewal_status is not distinct from 'failed' or (c.not_after <= now() and next.not_after is null) as has_renewal_failed,
    c.not_after - now() < (c.not_after - c.issued_at) / 4 and next.not_after is null as is_expiring,
    h.config_valid is false as has_invalid_config,
    coalesce(h.queue_at_risk or h.dropped_since_previous, false) as is_at_risk
  from collector_identity i
  join used c on c.identity_id = i.id
  left join next on next.predecessor_id = c.id
  left join collector_health h on h.identity_id = i.id
  left join ingest_host e on e.host_id = i.identity
), host as (
  select *, case
    when is_revoked then 'revoked'
    when heartbeat is null and envelope is null and enrolled_at > now() - interval '15 minutes' then 'enrolling'
    when has_renewal_failed then 'renewal_failed'
    when heartbeat < now() - interval '180 seconds' then 'stale'
    when heartbeat is null and enrolled_at <= now() - interval '15 minutes' then 'stale'
    when is_expiring then 'cert_expiring'
    when has_invalid_config then 'config_invalid'
    when version in ('0.9.0', 'latest') then 'unsupported_version'
    when is_at_risk and agent = 'otelcol' then 'component_unhealthy'
    when is_at_risk then 'queue_at_risk'
    else 'healthy' end as state
  from raw
)`;

const secret = "a-secret-of-the-dialogue-of-more-than-32-bytes";
const cleanup = new AsyncDisposableStack();
afterAll(() => cleanup.disposeAsync());
const folder = newFolder();

// A server of its own: core takes privileges from PUBLIC at its start.
const database = cleanup.use(await openEmbeddedDatabase());
const { sql } = database;
let send: SendChat;
let conversation: ChatClient;

beforeAll(async () => {
  await seedPeople(database.db, Date.now());
  await seedFleet(database.db, { count: 320, now: new Date() });
  const files = await prepareIngestCore(database.url, {
    env: {
      SVC_AUTH_TOKEN_SECRET: secret,
      SVC_INFERENCE_CHAT_MODEL: "mock",
      SVC_COLLECTOR_MIN_VERSION: "1.0.0",
    },
    program: programFile("functions/main.ts"),
  });
  cleanup.defer(() => files.remove());
  const core = await files.start();
  cleanup.defer(() => void core.process.kill("SIGKILL"));
  const origin = `http://127.0.0.1:${core.port}`;
  const headers = { Authorization: `Bearer ${await bridgeTokenOf(secret, "auditor")}` };
  send = (path, init) =>
    fetch(`${origin}/v1/chat${path}`, { ...init, headers: { ...init?.headers, ...headers } });

  conversation = await startConversation(send);
});

it("answers what the tables hold", async () => {
  // Until the truth is the same before and after the answer: a host may become stale meanwhile.
  const ask = async () => {
    for (;;) {
      const before = await readStates(sql);
      const { text, results } = await conversation.ask("How many hosts need attention right now?");
      if (JSON.stringify(before) === JSON.stringify(await readStates(sql)))
        return { text, results, states: before };
    }
  };
  const { text, results, states } = await ask();
  const sum = (rows: typeof states) => rows.reduce((total, { hosts }) => total + hosts, 0);
  const needsNobody = ["healthy", "enrolling", "revoked"];
  const troubled = states.filter(({ state }) => !needsNobody.includes(state));
  expect(troubled.length).toBeGreaterThan(4);
  expect(results.map(({ kind }) => kind)).toEqual(["relations", "relation", "rows"]);
  expect(text).toContain(`${sum(troubled)} hosts of ${sum(states)} need attention`);
  for (const { state, hosts } of states) expect(text).toContain(`- ${state}: ${hosts} host`);
});

it("has receipts that verify offline, by the keys of core", async () => {
  const { raw, file } = await conversation.receipts();
  const turns = file.items.filter(({ kind }) => kind === "closing").length;
  expect(turns).toBeGreaterThanOrEqual(1);
  expect(verify(raw, await readReceiptKeys(send))).toMatchObject({
    status: 0,
    result: {
      ok: true,
      checked: file.items.length,
      turns,
      keys: "given",
      ephemeral: true,
      fault: null,
    },
  });
});

it("T5: verification names the receipt of which one byte was changed", async () => {
  const { raw, file } = await conversation.receipts();
  const keys = await readReceiptKeys(send);
  const at = file.items.findIndex(({ kind }) => kind === "answer");
  const text = String(file.items[at]?.payload.text);
  const digit = /\d/.exec(text)?.[0] ?? "";
  const quoted = JSON.stringify(text);
  const changed = raw.replace(quoted, () =>
    quoted.replace(digit, String((Number(digit) + 1) % 10)),
  );
  expect(changed.length).toBe(raw.length);
  expect(verify(changed, keys)).toMatchObject({
    status: 1,
    result: { ok: false, checked: at, fault: { seq: at + 1, kind: "payload" } },
  });
});

/** Runs `svc-server verify-receipts` without any environment. */
const verify = (receipts: string, keys: object) => {
  const paths = Object.entries({ receipts, keys: JSON.stringify(keys) }).map(([name, content]) => {
    const path = join(folder, `${name}.json`);
    writeFileSync(path, content);
    return path;
  });
  const args = [
    programFile("functions/main.ts"),
    "verify-receipts",
    paths[0] ?? "",
    "--keys",
    paths[1] ?? "",
  ];
  const { status, stdout } = spawnSync(process.execPath, args, {
    env: {},
    encoding: "utf8",
    timeout: 60_000,
  });
  return { status, result: JSON.parse(stdout) };
};
