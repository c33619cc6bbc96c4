/**
 * The ten questions of an operator, each answered in the browser with at most two clicks (`clicksFrom`), and compared with the database.
 *
 * The expected answers are SQL over the tables that core writes (identities, certificates, heartbeats, assignments, envelopes, audit
 * events), written for this test: nothing of the report's own predicates, nor its table `fleet_host`. Each answer is also written out by
 * hand, so that an error that page and SQL share is found.
 */
import { type SQL, sql } from "drizzle-orm";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { clicksFrom, type Operator } from "../support/operator.ts";
import { hashOf, hostIdOf, questionsNow, seedQuestions, sender } from "../support/questions-fleet.ts";
import { startWebInBrowser } from "../support/web-in-browser.ts";

const minute = 60_000;
const now = sql`${new Date(questionsNow).toISOString()}::timestamptz`;

const { web, browser } = await startWebInBrowser({ core: { now: questionsNow } });
beforeAll(async () => {
  await seedQuestions(web.core.db);
  const revoke = async (path: string, reason: string, minutesAgo: number) => {
    web.clock.set(questionsNow - minutesAgo * minute);
    const { status } = await web.core.api("POST", `/v1/collector/${path}/revoke`, {
      as: "admin",
      body: { reason_code: reason },
    });
    expect(status).toBe(200);
  };
  await revoke(`identities/${hostIdOf("gone-retired")}`, "decommissioned", 120);
  await revoke(`identities/${hostIdOf("cfg-r2-revoked")}`, "decommissioned", 115);
  await revoke(`identities/${hostIdOf("gone-stolen")}`, "host_stolen", 20);
  web.clock.set(questionsNow);
});

/** Lets an operator find the answer from a page, and rejects if that took more than two clicks. */
const answerFrom = async (start: "/" | "/fleet", find: (operator: Operator) => Promise<void>): Promise<void> => {
  const clicks = await clicksFrom({ browser, web, now: questionsNow }, start, find);
  expect(clicks).toBeGreaterThan(0);
  expect(clicks).toBeLessThanOrEqual(2);
};

/** Returns the device ids that a query selects, sorted. */
const devicesWhere = async (where: SQL): Promise<string[]> => {
  const rows = await web.core.db.execute<{ device_id: string }>(sql`
    select i.device_id from collector_identity i
    join certificate c on c.identity_id = i.id and c.first_used_at is not null
    left join certificate s on s.predecessor_id = c.id and s.status = 'active' and s.first_used_at is null
    left join collector_health h on h.identity_id = i.id
    left join ingest_host e on e.host_id = i.identity
    left join config_assignment a on a.identity_id = i.id and a.ended_at is null
    left join collector_config g on g.id = a.config_id
    where ${where}`);
  return rows.map(({ device_id }) => device_id).toSorted();
};

/** Expects the rows of the fleet page, and the total above them, to be the hosts of a query, which are these. */
const expectRows = async (page: Page, where: SQL, hosts: readonly string[]): Promise<void> => {
  const expected = await devicesWhere(where);
  expect(expected).toEqual(hosts.toSorted());
  await expect.poll(async () => (await page.locator(".row-link").allTextContents()).toSorted()).toEqual(expected);
  await page.getByText(`1 to ${expected.length} of ${expected.length}`).first().waitFor();
};

describe("which hosts stopped forwarding since 10:00", () => {
  const ten = sql`'2026-11-26T10:00:00Z'::timestamptz`;

  const stopped = sql`i.revoked_at is null and e.last_envelope_at < ${now} - interval '5 minutes'
    and (h.queue_bytes > 0 or h.last_heartbeat_at >= ${now} - interval '3 minutes')`;

  it("is answered for those that have sent nothing since", () =>
    answerFrom("/fleet", async ({ page, query }) => {
      await query("forwarding:stopped since:10:00");
      await expectRows(page, sql`${stopped} and e.last_envelope_at < ${ten}`, ["fwd-0930-queues", "fwd-0959"]);
    }));

  it("is answered for those that stopped after it", () =>
    answerFrom("/fleet", async ({ page, query }) => {
      await query("forwarding:stopped -since:10:00");
      await expectRows(page, sql`${stopped} and e.last_envelope_at >= ${ten}`, ["fwd-1000", "fwd-1010", "fwd-1424"]);
    }));

  it("is answered with those that are silent altogether", () =>
    answerFrom("/fleet", async ({ page, query }) => {
      await query("since:10:00");
      await expectRows(page, sql`e.last_envelope_at < ${ten}`, ["fwd-0900-silent", "fwd-0930-queues", "fwd-0959"]);
    }));
});

it("who revoked this host and why: its row says it", () =>
  answerFrom("/fleet", async ({ page, click, query }) => {
    await query("device:gone-stolen");
    await page.getByText("1 to 1 of 1").first().waitFor();
    await click(page.getByRole("link", { name: "gone-stolen" }));
    const [event] = await web.core.db.execute<{ actor_display: string; reason_code: string; at: string }>(sql`
      select actor_display, reason_code, to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as at from audit_event
      where action = 'identity.revoke' and outcome = 'success' and target_id = ${hostIdOf("gone-stolen")}`);
    expect(event).toEqual({ actor_display: "ada@example.test", reason_code: "host_stolen", at: "2026-11-26 14:10" });
    const revocation = page.getByRole("dialog").getByRole("listitem").filter({ hasText: "Identity revoked by" });
    for (const text of Object.values(event ?? {})) await revocation.getByText(text).first().waitFor();
  }));

it("which hosts are not on the desired config", () =>
  answerFrom("/fleet", async ({ page, query }) => {
    await query("drift:drifted,on_last_known_good");
    const desired = sql`coalesce(g.config_hash, h.desired_config_hash)`;
    await expectRows(page, sql`h.running_config_hash <> ${desired}`, [
      ...["cfg-r2-drifted", "cfg-r2-fallen-back", "cfg-r2-invalid", "cfg-r2-revoked", "cfg-r2-silent"],
      "cfg-r2-unasked",
    ]);
  }));

it("which certificates expire this weekend", () =>
  answerFrom("/fleet", async ({ page, query }) => {
    await query("expires:weekend");
    await expectRows(
      page,
      sql`greatest(c.not_after, s.not_after) >= '2026-11-28T00:00:00Z' and greatest(c.not_after, s.not_after) < '2026-11-30T00:00:00Z'`,
      ["crt-saturday", "crt-sunday", "crt-renewed-briefly"],
    );
  }));

describe("has the rollout of a config finished, and if not, who is left", () => {
  const left = (hash: string) => sql`i.revoked_at is null and coalesce(g.config_hash, h.desired_config_hash) = ${hash}
    and h.running_config_hash is distinct from ${hash}`;
  const remaining = ["cfg-r2-drifted", "cfg-r2-fallen-back", "cfg-r2-invalid", "cfg-r2-silent"];

  it("is answered by the page of the configs, whose sentence leads to the hosts", () =>
    answerFrom("/fleet", async ({ page, click }) => {
      await click(page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Configs" }));
      const row = page.getByRole("row").filter({ hasText: hashOf("web r2").slice(0, 12) });
      await click(row.getByRole("link", { name: "4 of 7 hosts left: not finished." }));
      await expectRows(page, left(hashOf("web r2")), remaining);
    }));

  it("is answered with the time at which the last host ran it", () =>
    answerFrom("/", async ({ page, click }) => {
      await click(page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Configs" }));
      expect(await devicesWhere(left(hashOf("db r1")))).toEqual([]);
      const [rollout] = await web.core.db.execute<{ hosts: number; at: string }>(sql`
        select count(*)::int as hosts, to_char(max(h.running_config_since) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as at
        from config_assignment a join collector_config g on g.id = a.config_id
        join collector_health h on h.identity_id = a.identity_id and h.running_config_hash = g.config_hash
        where a.ended_at is null and g.config_hash = ${hashOf("db r1")}`);
      expect(rollout).toEqual({ hosts: 2, at: "2026-11-23 15:30:00" });
      const row = page.getByRole("row").filter({ hasText: hashOf("db r1").slice(0, 12) });
      await row.getByText(`Finished at ${rollout?.at} UTC: all ${rollout?.hosts} hosts run it.`).waitFor();
    }));

  it("is answered by one query for a hash", () =>
    answerFrom("/fleet", async ({ page, query }) => {
      const hash = hashOf("web r2").slice(0, 6);
      await query(`desired:${hash} -running:${hash} -state:revoked`);
      await expectRows(page, left(hashOf("web r2")), remaining);
    }));
});

it("which hosts run a version below 1.4", () =>
  answerFrom("/fleet", async ({ page, query }) => {
    await query("version<1.4");
    const version = sql`coalesce(h.collector_version, i.collector_version)`;
    const numbers = sql`string_to_array(split_part(${version}, '-', 1), '.')::int[]`;
    await expectRows(
      page,
      sql`case when ${version} ~ '^[0-9]+[.][0-9]+[.][0-9]+'
        then ${numbers} < '{1,4,0}' or (${numbers} = '{1,4,0}' and ${version} like '%-%') else false end`,
      ["ver-0.9.12", "ver-1.3.9", "ver-1.4.0-rc.1", "ver-silent"],
    );
  }));

describe("who is losing data", () => {
  it("is answered for hosts that lose it now or are about to", () =>
    answerFrom("/fleet", async ({ page, query }) => {
      await query("condition:queue_at_risk");
      await expectRows(page, sql`h.queue_at_risk or h.dropped_since_previous`, [
        ...["data-at-risk", "data-losing", "data-refused"],
      ]);
    }));

  it("is answered for hosts that ever lost records: dropped, or rejected by core", () =>
    answerFrom("/fleet", async ({ page, query }) => {
      await query("dropped>0");
      await expectRows(page, sql`h.dropped_records_total > 0 or h.dead_letters > 0`, [
        ...["data-losing", "data-lost-once", "data-refused"],
      ]);
    }));
});

it("who keeps failing authentication, without typing: the empty bar lists the question", () =>
  answerFrom("/fleet", async ({ page, click }) => {
    await click(page.getByRole("combobox", { name: "Search and filter hosts" }));
    await click(page.getByRole("option", { name: /who keeps failing authentication/ }));
    await expectRows(
      page,
      sql`i.last_auth_failure_at >= ${now} - interval '24 hours'
        and not exists (select from collector_health later
          where later.identity_id = i.id and later.last_heartbeat_at >= i.last_auth_failure_at)`,
      ["auth-failing", "auth-failing-a-day", "auth-failing-new"],
    );
  }));

describe("what changed in the last hour", () => {
  const since = sql`${now} - interval '1 hour'`;

  it("is answered for the hosts", () =>
    answerFrom("/fleet", async ({ page, query }) => {
      await query("changed<1h");
      const expiry = sql`greatest(c.not_after, s.not_after)`;
      const expiring = sql`greatest(c.not_after - (c.not_after - c.issued_at) / 4, s.not_after)`;
      const stale = sql`h.last_heartbeat_at + interval '3 minutes'`;
      const within = (at: SQL) => sql`(${at} >= ${since} and ${at} <= ${now})`;
      await expectRows(
        page,
        sql`${within(sql`i.enrolled_at`)} or ${within(sql`i.revoked_at`)} or ${within(sql`a.assigned_at`)}
          or ${within(sql`h.version_since`)} or ${within(sql`h.running_config_since`)} or ${within(sql`h.config_invalid_since`)}
          or ${within(sql`h.recovered_at`)}
          or ${within(stale)} or ${within(expiry)} or ${within(expiring)}`,
        [
          "gone-stolen",
          "chg-enrolled",
          "chg-version",
          "chg-config",
          "chg-invalid",
          "chg-stale",
          "chg-expired",
          "chg-recovered",
        ],
      );
    }));

  it("is answered for the people, by the audit log", () =>
    answerFrom("/", async ({ page, click }) => {
      await click(page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Audit" }));
      await click(page.getByRole("link", { name: "Last hour" }));
      const events = await web.core.db.execute<{ actor_display: string; reason_code: string | null }>(sql`
        select actor_display, reason_code from audit_event where occurred_at >= ${since} and occurred_at <= ${now}`);
      expect(events.map((event) => event.reason_code)).toContain("host_stolen");
      const rows = page.getByRole("table", { name: "Audit events, newest first" }).locator("tbody tr");
      await expect.poll(() => rows.count()).toBe(events.length);
      for (const { actor_display, reason_code } of events)
        await rows
          .filter({ hasText: actor_display })
          .filter({ hasText: reason_code ?? "" })
          .first()
          .waitFor();
    }));
});

it("what a host sent today, by kind and hour", () =>
  answerFrom("/fleet", async ({ page, click, query }) => {
    await query(sender);
    await page.getByText("1 to 1 of 1").first().waitFor();
    await click(page.getByRole("link", { name: sender }));
    const rows = await web.core.db.execute<{ hour: string; kind: string; envelopes: number }>(sql`
      select to_char(hour at time zone 'UTC', 'HH24:MI') as hour, kind, envelopes::int
      from ingest_hour join collector_identity on identity = host_id
      where device_id = ${sender} and (hour at time zone 'UTC')::date = '2026-11-26' order by hour desc, kind`);
    const of = (hour: string, kind: string) =>
      String(rows.find((row) => row.hour === hour && row.kind === kind)?.envelopes ?? 0).replace(
        /(?=000$|\d{3}$)(?<=^\d)/,
        ",",
      );
    const expected = ["14:00", "09:00", "00:00"].map((hour) => [
      hour,
      ...["otel_span", "log_line", "other"].map((kind) => of(hour, kind)),
    ]);
    expect(expected).toEqual([
      ["14:00", "1,200", "35", "0"],
      ["09:00", "800", "0", "0"],
      ["00:00", "0", "0", "4"],
    ]);
    expect(rows.length).toBe(4);
    const table = page.getByRole("dialog").getByRole("table", { name: "Today, in envelopes", exact: true });
    await expect.poll(() => table.locator("tbody tr").count()).toBe(expected.length);
    const cells = (part: string) =>
      table
        .locator(`${part} tr`)
        .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
    expect(await cells("thead")).toEqual([["From (UTC)", "spans", "log lines", "other"]]);
    expect(await cells("tbody")).toEqual(expected);
    expect(await cells("tfoot")).toEqual([["In all", "2,000", "35", "4"]]);
    expect(await table.isVisible()).toBe(true);
  }));
