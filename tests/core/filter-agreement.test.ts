import { type SQL, sql } from "drizzle-orm";
import fc from "fast-check";
import { compare, valid } from "semver";
import { expect, it } from "vitest";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { dayAt, saveDays } from "#functions/store/completeness/days.ts";
import { column } from "#functions/store/fleet/columns/expression.ts";
import { loadHosts } from "#functions/store/fleet/columns/resident-hosts.ts";
import { hostsAt } from "#functions/store/fleet/history.ts";
import { fleetPredicate } from "#functions/store/fleet/predicate.ts";
import { selectHosts, type ViewedFleet } from "#functions/store/fleet/select-hosts.ts";
import { byteOfState, incompleteStates } from "#proto/completeness/hour-state.ts";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import {
  changeFilter,
  distinctStates,
  type FleetFilter,
  filterPartNames,
  withoutHistory,
} from "#proto/fleet-health/filter.ts";
import {
  attentionStates,
  configProgress,
  driftKinds,
  enrolledStatuses,
  fleetConditions,
  fleetStates,
  forwardings,
} from "#proto/fleet-health/vocabulary.ts";
import { agentKinds } from "#proto/values.ts";
import { createTestToken } from "../support/collector.ts";
import { useTestCore } from "../support/core.ts";
import { isSlow } from "../support/is-slow.ts";

const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const { policyId } = await createTestToken(test, { name: "kiosks" });
const now = test.clock.now();
await test.seedFleet(400);
await test.db.execute(
  sql`update collector_identity set policy_id = ${policyId}::uuid where device_id like '%3'`,
);
await test.db.execute(sql`update fleet_status set core = 'core-' || length(identity) % 3, subnet = '10.0.' || length(identity) % 2 || '.0/24'
  where last_heartbeat_at > '-infinity'`);
await test.db.execute(sql`update fleet_status set agent = 'otelcol', queue_bytes = least(queue_bytes, 0),
  lost_records = least(lost_records, 0) where length(identity) % 4 = 0`);
const policies = new Map(
  (
    await test.db.execute<{ id: string; name: string }>(
      sql`select i.id, p.name from collector_identity i join enrollment_policy p on p.id = i.policy_id`,
    )
  ).map(({ id, name }) => [id, name]),
);
await test.db.execute(
  sql`update fleet_status set queue_oldest_seconds = queue_bytes % 9000 where queue_bytes > 0`,
);
const fleet = (await test.health("limit=1000")).items;
const certificates = await test.db.execute<{
  id: string;
  identity_id: string;
  serial: string;
  fingerprint: string;
}>(
  sql`select id, identity_id, serial_number as serial, encode(fingerprint_sha256, 'hex') as fingerprint from certificate`,
);
const configDates = new Map(
  (
    await test.db.execute<{
      id: string;
      at: string;
    }>(sql`select i.id, greatest(a.assigned_at, h.running_config_since, h.recovered_at,
      -- Renewed when less than a quarter of the lifetime was left.
      (select max(late.issued_at) from certificate late join certificate p on p.id = late.predecessor_id
        where late.identity_id = i.id and late.status = 'active' and p.not_after - late.issued_at < (p.not_after - p.issued_at) / 4),
      coalesce(h.version_since, h.last_heartbeat_at, i.enrolled_at)) as at from collector_identity i
      left join collector_health h on h.identity_id = i.id
      left join config_assignment a on a.identity_id = i.id and a.ended_at is null`)
  ).map(({ id, at }) => [id, Date.parse(at)]),
);

/** Every eighth host is held by its budget; others were, until a minute ago. */
const heldHosts = new Set(
  fleet.flatMap(({ identity_id }, index) => (index % 8 === 0 ? [identity_id] : [])),
);
const holds = fleet.flatMap(({ identity, identity_id: id }, index) =>
  index % 4 === 0
    ? [{ identity, id, until: new Date(now + (heldHosts.has(id) ? 60_000 : -60_000)) }]
    : [],
);
await test.db.execute(sql`insert into held_host (host_id, identity_id, budget, since, until)
  select identity, id, 'small', now(), until from jsonb_to_recordset(${JSON.stringify(holds)}::jsonb)
  as host (identity text, id uuid, until timestamptz)`);

/** Every third host is in the inventory, by its device id or its identity; every fifth has been, some of them in both. */
await test.db.execute(sql`insert into inventory (sha256, hosts, updated_at) values ('', 0, now())`);
const entries = fleet.flatMap(({ identity, device_id }, index) => [
  ...(index % 3 === 0 ? [{ name: index % 2 === 0 ? device_id : identity, removed: false }] : []),
  ...(index % 5 === 0 ? [{ name: index % 2 === 0 ? identity : device_id, removed: true }] : []),
]);
await test.db.execute(sql`insert into inventory_host (name, labels, removed_at)
  select name, '{}', case when removed then now() end from jsonb_to_recordset(${JSON.stringify(entries)}::jsonb) as entry (name text, removed boolean)`);
const isNamed = ({ identity, device_id }: FleetHealthRow, removed: boolean) =>
  entries.some((entry) => entry.removed === removed && [identity, device_id].includes(entry.name));
const inventoryStatusOf = (row: FleetHealthRow) => {
  if (isNamed(row, false)) return "expected";
  if (!isNamed(row, true)) return row.state === "revoked" ? null : "unexpected";
  const sends = row.forwarding === "forwarding" || within(heartbeat(row), 180);
  return sends && row.state !== "revoked" ? "gone" : null;
};

/** Some hosts accepted records of a source since yesterday, and others longer ago. */
const sourcesOf = (index: number) =>
  index % 5 === 0 ? ["syslog", "otlp"].slice(0, 1 + (index % 2)) : index % 7 === 0 ? ["a, b"] : [];
const today = Math.floor(now / 86_400_000);
const accounts = fleet.flatMap(({ identity }, index) =>
  ["audit", ...sourcesOf(index)].map((source) => ({
    identity,
    source,
    day: today - (source === "audit" ? 2 : index % 2),
  })),
);
await test.db.execute(sql`insert into volume_source (host_id, day, kind, source, envelopes, payload_bytes)
  select identity, day, 'log_line', source, 1, 1 from jsonb_to_recordset(${JSON.stringify(accounts)}::jsonb)
  as account (identity text, source text, day integer)`);
const sourcesById = new Map(fleet.map(({ identity_id }, index) => [identity_id, sourcesOf(index)]));

const toSecond = (at: number) => Math.floor(at / 1000) * 1000;
const toHour = (at: number) => Math.floor(at / 3_600_000) * 3_600_000;
/** The start of the newest incomplete hour of some hosts, on this day or an earlier one; the others are complete, or were never settled. */
const incompleteHours = new Map<string, number>();
for (const [index, row] of fleet.entries()) {
  const at = toHour(now - (index % 60) * 3_600_000);
  const states = new Uint8Array(24).fill(index % 3 === 0 ? 0 : byteOfState("complete"));
  const isIncomplete = index % 4 !== 1;
  if (isIncomplete) {
    states[(at % 86_400_000) / 3_600_000] = byteOfState(
      incompleteStates[index % incompleteStates.length] ?? "short",
    );
    incompleteHours.set(row.identity_id, at);
  }
  const day = {
    host: row.identity,
    day: dayAt(at),
    states,
    details: null,
    undelivered: 0,
    xid: null,
  };
  await saveDays(test.db, [{ ...day, incompleteHours: isIncomplete ? 1 : 0 }]);
}

/** Some queues were smaller ten minutes ago, some as large, some larger; and of a sample a moment ago nothing follows. */
const sampleSeconds = 600;
const samples = new Map(
  fleet.flatMap(({ identity_id: id, queue: { bytes } }, index) =>
    bytes && index % 2 === 0 ? [[id, Math.round(bytes * (0.9 + 0.1 * (index % 3)))] as const] : [],
  ),
);
for (const [id, bytes] of samples)
  await test.db.execute(sql`insert into queue_sample (identity_id, at, bytes)
    select ${id}::uuid, last_heartbeat_at - make_interval(secs => ago), ${bytes}::bigint * (ago / ${sampleSeconds}::int)
    from fleet_status, unnest(array[${sampleSeconds}::int, 30]) ago where identity_id = ${id}::uuid`);

const time = (text: string | null) => (text === null ? Number.NEGATIVE_INFINITY : Date.parse(text));
const heartbeat = (row: FleetHealthRow) => time(row.last_heartbeat_at);
const envelope = (row: FleetHealthRow) => toSecond(time(row.last_envelope_at));
const failure = (row: FleetHealthRow) => time(row.last_auth_failure?.at ?? null);
const expiry = (row: FleetHealthRow) =>
  Math.max(time(row.certificate.not_after), unusedSuccessors.get(row.identity_id) ?? 0);
/** The report shows a successor until it expires; a host has expired with the later of both. */
const unusedSuccessors = new Map(
  (
    await test.db.execute<{
      id: string;
      at: string;
    }>(sql`select identity_id as id, not_after as at from certificate
      where predecessor_id is not null and status = 'active' and first_used_at is null`)
  ).map(({ id, at }) => [id, Date.parse(at)]),
);
const within = (at: number, seconds: number) => at >= now - seconds * 1000;
const isRecentHeartbeat = (row: FleetHealthRow) => within(heartbeat(row), 180);
const wildcard = (pattern: string) =>
  new RegExp(
    `^${pattern
      .split("*")
      .map((part) => part.replace(/[^\w]/g, "\\$&"))
      .join(".*")}$`,
  );
const inRange = (version: string, range: string) => {
  const [, operator = "", bound = ""] = /^([<>]=?)(.*)$/.exec(range) ?? [];
  if (valid(version) === null) return false;
  const order = compare(version, { "1": "1.0.0", "1.4": "1.4.0" }[bound] ?? bound);
  return { "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0 }[operator] ?? false;
};
const { running_config_hash: someHash } =
  fleet.find((row) => row.config.running_config_hash !== null)?.config ?? {};
const beginsWith = (hash: string | null, prefix: string) => hash?.startsWith(prefix) ?? false;
const ownCertificates = (row: FleetHealthRow) =>
  certificates.filter((own) => own.identity_id === row.identity_id);

const assignedAt = new Map(
  (
    await test.db.execute<{ id: string; at: string }>(
      sql`select identity_id as id, assigned_at as at from config_assignment where ended_at is null`,
    )
  ).map(({ id, at }) => [id, Date.parse(at)]),
);
const progressOf = (row: FleetHealthRow) => {
  const { desired_config_hash: desired, running_config_hash: running } = row.config;
  if (row.state === "revoked" || desired === null) return null;
  if (heartbeat(row) < Math.max(assignedAt.get(row.identity_id) ?? 0, now - 180_000))
    return "silent";
  if (running === desired) return "running";
  return row.conditions.some(({ state }) => state === "config_invalid") ? "failed" : "drifted";
};

/** Whether a row matches one value of a part, decided by the row and the tables alone. */
const meanings: Readonly<Record<string, (row: FleetHealthRow, value: never) => boolean>> = {
  states: (row, state: string) => row.state === state,
  text: (row, text: string) =>
    [row.device_id, row.hostname ?? "", row.identity, row.platform, row.version].some((field) =>
      field.toLowerCase().includes(text.toLowerCase()),
    ) ||
    row.identity_id === text.toLowerCase() ||
    ownCertificates(row).some(
      ({ id, serial, fingerprint }) =>
        id === text ||
        [serial, fingerprint].includes(
          text.toLowerCase().replaceAll(":", "").replace("serial=", ""),
        ),
    ),
  device: (row, device: string) => row.device_id === device,
  hostname: (row, hostname: string) => row.hostname === hostname,
  identity: (row, identity: string) => row.identity === identity,
  platform: (row, platform: string) =>
    row.platform === platform || row.platform.split("/")[0] === platform,
  version: (row, version: string) => wildcard(version).test(row.version),
  agent: (row, agent: string) => row.agent === agent,
  versionRange: (row, range: string) => inRange(row.version, range),
  config: ({ config }, prefix: string) =>
    [
      config.desired_config_hash,
      config.running_config_hash,
      config.last_known_good_config_hash,
    ].some((hash) => beginsWith(hash, prefix)),
  desiredConfig: (row, prefix: string) => beginsWith(row.config.desired_config_hash, prefix),
  runningConfig: (row, prefix: string) => beginsWith(row.config.running_config_hash, prefix),
  label: (row, pair: string) => {
    const [key = "", value] = pair.split(":");
    return value === "*" ? Object.hasOwn(row.labels, key) : row.labels[key] === value;
  },
  core: (row, core: string) => row.core === core,
  subnet: (row, subnet: string) => row.subnet === subnet,
  policy: (row, policy: string) => policies.get(row.identity_id) === policy,
  source: (row, source: string) => sourcesById.get(row.identity_id)?.includes(source) ?? false,
  drift: (row, drift: string) => row.config.drift === drift,
  attention: (row) =>
    attentionStates.some((state) => state === row.state) ||
    row.forwarding === "stopped" ||
    row.forwarding === "never",
  progress: (row, step: string) => progressOf(row) === step,
  heartbeat: (row, kind: string) =>
    kind === "never"
      ? row.last_heartbeat_at === null
      : row.state !== "revoked" && isRecentHeartbeat(row),
  condition: (row, condition: string) => row.conditions.some(({ state }) => state === condition),
  forwarder: (row, state: string) =>
    row.forwarder !== null && row.forwarder.connected === (state === "connected"),
  forwarding: (row, kind: string) => row.forwarding === kind,
  auth: (row, kind: string) =>
    within(failure(row), 86_400) && (kind === "failed" || failure(row) > heartbeat(row)),
  budget: (row) => heldHosts.has(row.identity_id),
  inventory: (row, status: string) => inventoryStatusOf(row) === status,
  heartbeatOlderThanSeconds: (row, age: number) =>
    row.last_heartbeat_at !== null && !within(heartbeat(row), age),
  heartbeatWithinSeconds: (row, age: number) => within(heartbeat(row), age),
  envelopeOlderThanSeconds: (row, age: number) =>
    row.last_envelope_at !== null && envelope(row) < toSecond(now - age * 1000),
  envelopeWithinSeconds: (row, age: number) => envelope(row) >= toSecond(now - age * 1000),
  silentSince: (row, since: string) =>
    row.last_envelope_at !== null && time(row.last_envelope_at) < time(since),
  changedWithinSeconds: (row, seconds: number) => {
    const recent = (at: number) => within(at, seconds) && at <= now;
    return (
      recent(time(row.enrolled_at)) ||
      recent(configDates.get(row.identity_id) ?? 0) ||
      row.conditions.some(
        ({ state, since }) => state !== "enrolling" && changes.has(state) && recent(time(since)),
      )
    );
  },
  incompleteWithinSeconds: (row, seconds: number) => {
    const hour = incompleteHours.get(row.identity_id);
    return hour !== undefined && hour >= now - seconds * 1000;
  },
  expiresWithinSeconds: (row, seconds: number) => expiry(row) <= now + seconds * 1000,
  expires: (row, range: string) => {
    const [from = "", to = ""] = range.split("..");
    return expiry(row) >= time(from) && expiry(row) < time(to);
  },
  droppedMoreThan: (row, count: number) =>
    (row.queue.dropped_records_total ?? -1) + (row.queue.dead_letters ?? 0) > count,
  queueAbovePercent: ({ queue }, percent: number) =>
    ((queue.bytes ?? 0) / (queue.max_bytes ?? 1)) * 100 > percent,
  queueAboveBytes: ({ queue }, bytes: number) => (queue.bytes ?? -1) > bytes,
  queueFullWithinSeconds: (row, within: number) => {
    const bytes = row.queue.bytes ?? 0;
    const age = row.queue.oldest_record_age_seconds ?? 0;
    const room = (row.queue.max_bytes ?? 0) - bytes;
    if (bytes === 0 || age < 300 || !isRecentHeartbeat(row)) return false;
    // A sample from before the oldest record, or of a moment ago, does not count.
    const sample = age >= sampleSeconds ? samples.get(row.identity_id) : undefined;
    const [grew, seconds] = sample === undefined ? [bytes, age] : [bytes - sample, sampleSeconds];
    return grew > 0 && room * seconds <= grew * within;
  },
};
/** The conditions whose start is a change that the filter sees; a version is one by its own date. */
const changes = new Set([
  "revoked",
  "renewal_failed",
  "stale",
  "cert_expiring",
  "config_invalid",
  "queue_at_risk",
  "component_unhealthy",
]);

const matches = (row: FleetHealthRow, filter: FleetFilter) =>
  Object.entries(filter).every(([part, value]) => {
    const negated = part.startsWith("not");
    const name = negated ? part.charAt(3).toLowerCase() + part.slice(4) : part;
    const meaning = meanings[name] as (row: FleetHealthRow, value: unknown) => boolean;
    const results = [value].flat().map((each) => meaning(row, each));
    if (negated) return results.every((result) => !result);
    if (name === "label") {
      const pairs = [value].flat().map(String);
      const keys = new Set(pairs.map((pair) => pair.split(":")[0]));
      return [...keys].every((key) =>
        pairs.some((pair, index) => results[index] && pair.split(":")[0] === key),
      );
    }
    return name === "text" || name === "versionRange"
      ? results.every(Boolean)
      : results.some(Boolean);
  });

const iso = (seconds: number) =>
  `${new Date(toSecond(now + seconds * 1000)).toISOString().slice(0, 19)}Z`;
const ages = fc.constantFrom(0, 30, 60, 120, 400, 3600, 86_400, 10_000_000);
const several = (...values: readonly string[]) => fc.subarray([...values], { minLength: 1 });
const rows = (read: (row: FleetHealthRow) => string | null) =>
  fc.uniqueArray(fc.constantFrom(...fleet.map((row) => read(row) ?? "none")), {
    minLength: 1,
    maxLength: 3,
  });
const hashes = several(
  (someHash ?? "").slice(0, 6),
  (someHash ?? "").slice(0, 7),
  someHash ?? "",
  "000000",
  "ffffff",
);
const certificate = certificates[40];
/** Values that find some hosts and not others. */
const values: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  states: fc
    .subarray([...fleetStates], { minLength: 1, maxLength: 8 })
    .map((states) => distinctStates(states)),
  text: fc.uniqueArray(
    fc.constantFrom(
      "HOST-1",
      "=host7",
      "dc-3",
      "%",
      "\\",
      "amd",
      "1.1",
      "/",
      "nothing",
      (certificate?.fingerprint ?? "").toUpperCase(),
      fleet[7]?.identity_id.toUpperCase() ?? "",
      certificate?.id ?? "",
      "serial=0A1B2C",
    ),
    { minLength: 1, maxLength: 2 },
  ),
  device: rows((row) => row.device_id),
  hostname: rows((row) => row.hostname),
  identity: rows((row) => row.identity),
  platform: several("linux", "linux/amd64", "darwin", "lin", "windows/arm64"),
  version: several("1.4.0", "1.*", "*.2", "latest", "1.1*.*", "2.*"),
  agent: several(...agentKinds),
  versionRange: several("<1.4", "<=1.4.0", ">1", ">=1.10.2", "<1.11.0-rc.1"),
  config: hashes,
  desiredConfig: hashes,
  runningConfig: hashes,
  label: several(
    ...new Set(fleet.flatMap(({ labels }) => Object.entries(labels).map((pair) => pair.join(":")))),
    "env:*",
  ),
  core: several("core-0", "core-1", "core-9"),
  subnet: several("10.0.0.0/24", "10.0.0.0/23"),
  policy: several("kiosks", "nobody"),
  source: several("syslog", "otlp", "a, b", "audit"),
  drift: several(...driftKinds),
  attention: fc.constant(["needed"]),
  progress: several(...configProgress),
  heartbeat: several("recent", "never"),
  condition: several(...fleetConditions),
  forwarder: several("connected", "disconnected"),
  forwarding: several(...forwardings),
  auth: several("failed", "failing"),
  budget: fc.constant(["held"]),
  inventory: several(...enrolledStatuses),
  heartbeatOlderThanSeconds: ages,
  heartbeatWithinSeconds: ages,
  envelopeOlderThanSeconds: ages,
  envelopeWithinSeconds: ages,
  silentSince: fc.constantFrom(iso(-30), iso(-60), iso(-420), iso(0)),
  changedWithinSeconds: ages,
  incompleteWithinSeconds: fc.constantFrom(0, 7_200, 36_000, 86_400, 172_800),
  expiresWithinSeconds: ages,
  expires: several(
    `${iso(0)}..${iso(86_400)}`,
    `${iso(259_200)}..${iso(864_000)}`,
    `${iso(-864_000)}..${iso(0)}`,
  ),
  droppedMoreThan: fc.constantFrom(0, 2, 4),
  queueAbovePercent: fc.constantFrom(0, 1, 2, 50, 100),
  queueAboveBytes: fc.constantFrom(0, 1_000_000, 2_500_000),
  queueFullWithinSeconds: fc.constantFrom(0, 600, 7_200, 259_200),
};
const valuesOf = (part: string) => {
  const found =
    values[part.startsWith("not") ? part.charAt(3).toLowerCase() + part.slice(4) : part];
  if (found === undefined) throw new Error(`give values for the part ${part}, and its meaning`);
  return found;
};
const rules = await readFleetRules(test.core);
/** As hosts are now, seen as a past time. */
const hostsThen = hostsAt(rules.now);
const hasHistory = (filter: FleetFilter) => {
  const { staleAfterSeconds, forwardingSeconds } = rules.thresholds;
  const thresholds = {
    stale_after_seconds: staleAfterSeconds,
    forwarding_seconds: forwardingSeconds,
  };
  return withoutHistory({ filter }, { at: now, thresholds }) === undefined;
};

/** Returns a fleet of some of the hosts as each engine sees it. */
const viewsOf = async (hosts: readonly FleetHealthRow[], filter: FleetFilter) => {
  const ids = `{${hosts.map((row) => row.identity_id).join(",")}}`;
  const some = (all: SQL) =>
    sql`(select * from ${all} where identity_id = any(${ids}::uuid[])) fleet`;
  const both = async (name: string, past: SQL): Promise<[string, ViewedFleet][]> => {
    const stored = { db: test.db, rules: { ...rules, past } };
    const resident = { ...stored, hosts: await loadHosts(test.db, past) };
    return [
      [`SQL${name}`, stored],
      [`core's memory${name}`, resident],
    ];
  };
  return [
    ...(await both("", some(sql`fleet`))),
    ...(hasHistory(filter) ? await both(" of the past", some(hostsThen)) : []),
  ];
};

const findIds = async (view: ViewedFleet, filter: FleetFilter) => {
  const hosts = await selectHosts(view, fleetPredicate(filter, view.rules));
  const all = { order: "asc", limit: fleet.length, after: null } as const;
  return (await hosts.first({ key: column("identity"), type: "text" }, all)).ids.sort();
};

const idsOf = (hosts: readonly FleetHealthRow[]) =>
  hosts.map(({ identity_id }) => identity_id).sort();

/** One part of the registry with its values, or some parts together. */
const filters = fc
  .oneof(
    fc.subarray([...filterPartNames], { minLength: 1, maxLength: 1 }),
    fc.subarray([...filterPartNames], { minLength: 2, maxLength: 4 }),
  )
  .chain((parts) => fc.record(Object.fromEntries(parts.map((part) => [part, valuesOf(part)]))))
  .map((parts) => changeFilter({}, parts));
/** Fleets of any size, also empty ones. */
const fleets = fc.oneof(
  fc.constant(fleet),
  fc.subarray(fleet),
  fc.subarray(fleet, { maxLength: 9 }),
);
const runs = isSlow ? 500 : 400;

it(`finds the hosts that a filter means by each engine, now and in the past: ${runs} random fleets and filters`, async () => {
  const tried = new Set<string>();
  const property = fc.asyncProperty(fleets, filters, async (hosts, filter) => {
    const expected = idsOf(hosts.filter((row) => matches(row, filter)));
    for (const [engine, view] of await viewsOf(hosts, filter))
      expect(await findIds(view, filter), engine).toEqual(expected);
    for (const part of Object.keys(filter)) tried.add(part);
  });
  await fc.assert(property, { numRuns: runs });
  expect(filterPartNames.filter((part) => !tried.has(part))).toEqual([]);
});

it.each(filterPartNames)("knows values of %s that find some hosts and not all", (part) => {
  const found = fc
    .sample(valuesOf(part), { numRuns: 20, seed: 1 })
    .map((value) => fleet.filter((row) => matches(row, { [part]: value })).length);
  expect(found.some((count) => count > 0 && count < fleet.length)).toBe(true);
});
